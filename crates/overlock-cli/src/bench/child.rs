// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process around each run: the parent starts it, watches it and, if it hangs, ends it.
//!
//! The specification goes down as one JSON argument and the sample comes back as one JSON line. The
//! child ends by `_exit` right after that line, which also ends any thread that still spins, so
//! nothing leaks into the next run.

use super::subjects::{self, Counted, Entry};
use super::worker::{RunSample, RunSpec};
use crate::{interrupt, sys};
use anyhow::{Context, Result, bail};
use overlock_world::clock::Stamps;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The tasks of a child.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Run(RunSpec),
    Pairs { locks: Vec<String>, samples: usize, clock: Stamps },
}

/// Time beyond the window itself: start, drain, and delays by the scheduler with 64 spinning
/// threads.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pairs timed at a stretch: about 50 µs, far below a scheduler tick.
const PAIRS: u32 = 4_000;

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    Well(T),
    /// The lock's own fault: the sentence explains it.
    Badly(String),
    /// Ended by the user's Ctrl-C, or by a tool such as `timeout`, whose signal reaches the child
    /// too.
    Interrupted,
}

/// Runs one lock at one point in its own process.
pub(crate) fn run(spec: RunSpec) -> Result<Ended<RunSample>> {
    let limit = Duration::from_secs_f64(spec.seconds) + PATIENCE;
    ask(&Order::Run(spec), limit)
}

/// Times uncontended pairs of all locks in turns; returns for each lock its samples in ns.
pub(crate) fn pairs(
    locks: &[&Entry],
    samples: usize,
    clock: Stamps,
) -> Result<Ended<Vec<Vec<f64>>>> {
    let locks = locks.iter().map(|lock| lock.name.to_owned()).collect();
    ask(&Order::Pairs { locks, samples, clock }, PATIENCE)
}

fn ask<T: for<'de> Deserialize<'de>>(order: &Order, limit: Duration) -> Result<Ended<T>> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("overlock")
        .args(["bench-child", &serde_json::to_string(order)?])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start a process for a run")?;
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt::seen() {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Interrupted);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Badly(format!("hung: no end after {} s", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut answer = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut answer)?;
    }
    judge(status, &answer)
}

fn judge<T: for<'de> Deserialize<'de>>(status: ExitStatus, answer: &str) -> Result<Ended<T>> {
    match (status.code(), status.signal()) {
        (Some(0), _) => {
            Ok(Ended::Well(serde_json::from_str(answer).context("a run answered nonsense")?))
        }
        (Some(2), _) => bail!("a run could not be started"),
        (_, Some(libc::SIGINT | libc::SIGTERM)) => Ok(Ended::Interrupted),
        (_, Some(signal)) => Ok(Ended::Badly(format!("died of signal {signal}"))),
        (code, None) => Ok(Ended::Badly(format!("ended with code {}", code.unwrap_or(-1)))),
    }
}

/// Runs in the child: does the task of `order`, prints the answer and ends the process.
pub(crate) fn obey(order: &str) -> Result<()> {
    let answer = match serde_json::from_str(order).context("this command is for bench itself")? {
        Order::Run(spec) => serde_json::to_string(&run_here(&spec)?)?,
        Order::Pairs { locks, samples, clock } => {
            let locks = locks.iter().map(|name| lock(name)).collect::<Result<Vec<_>>>()?;
            serde_json::to_string(&time_pairs(locks, samples, clock))?
        }
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{answer}")?;
    stdout.flush()?;
    sys::exit_now(0)
}

fn run_here(spec: &RunSpec) -> Result<RunSample> {
    let lock = lock(&spec.lock)?;
    let run = if spec.counted { lock.run_counted } else { lock.run };
    let sample = run(spec)
        .with_context(|| format!("the system won't start {} threads; ask for fewer", spec.threads));
    if !spec.counted {
        return sample;
    }
    let counters = Counted::counters().iter();
    let named = counters.map(|(event, count)| (event.name().to_owned(), count)).collect();
    sample.map(|sample| RunSample { counters: named, ..sample })
}

fn lock(name: &str) -> Result<&'static Entry> {
    match subjects::find(name) {
        Some(entry) => Ok(entry),
        None => bail!("there is no lock '{name}'"),
    }
}

/// Times the locks in turns, `count` times.
///
/// It uses a second thread, because some C libraries leave out the locked instruction in a process
/// that has only one thread, and no program that uses locks has only one.
fn time_pairs(locks: Vec<&'static Entry>, count: usize, clock: Stamps) -> Vec<Vec<f64>> {
    let timer = std::thread::spawn(move || {
        let mut samples = vec![Vec::with_capacity(count); locks.len()];
        for _ in 0..count {
            for (lock, samples) in locks.iter().zip(&mut samples) {
                samples.push((lock.pair)(&clock, PAIRS));
            }
        }
        samples
    });
    timer.join().unwrap_or_default()
}
