//! The process around each run: the parent starts it, watches it and, if it hangs, ends it.
//!
//! The specification goes down as one JSON argument and the sample comes back as one JSON line. The
//! child ends by `_exit` right after that line, which also ends any thread that still spins, so
//! nothing leaks into the next run.

use crate::clock::Stamps;
use crate::threads::error::RunError;
use crate::threads::run::RunSpec;
use crate::threads::subjects::{self, Counted, Entry};
use overlock_programs::{Finished, finish};
use overlock_results::Run;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

type Result<T> = std::result::Result<T, RunError>;

/// The verb under which the program that uses this crate calls [`obey`] with the argument after it.
pub const CHILD: &str = "bench-child";

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

#[derive(Debug)]
pub enum RunEnd<T> {
    Well(T),
    /// The lock's own fault: the sentence explains it.
    Badly(String),
    /// Ended because the caller wanted it, or by a signal that reached the child too: the user's
    /// Ctrl-C, or that of a tool such as `timeout`.
    Interrupted,
}

/// Runs one lock at one point in its own process, until `cancelled` is set.
pub fn run(spec: RunSpec, cancelled: &AtomicBool) -> Result<RunEnd<Run>> {
    let limit = Duration::from_secs_f64(spec.seconds) + PATIENCE;
    ask(&Order::Run(spec), limit, cancelled)
}

/// Times uncontended pairs of all locks in turns, in a process of their own, until `cancelled` is
/// set; returns for each lock its samples in ns.
pub fn pairs(
    locks: &[&Entry],
    samples: usize,
    clock: Stamps,
    cancelled: &AtomicBool,
) -> Result<RunEnd<Vec<Vec<f64>>>> {
    let locks = locks.iter().map(|lock| lock.name.to_owned()).collect();
    ask(&Order::Pairs { locks, samples, clock }, PATIENCE, cancelled)
}

fn ask<T: for<'de> Deserialize<'de>>(
    order: &Order,
    limit: Duration,
    cancelled: &AtomicBool,
) -> Result<RunEnd<T>> {
    let order = serde_json::to_string(order).map_err(RunError::Order)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("overlock").args([CHILD, &order]);
    command.stdin(Stdio::null());
    let finished = finish(&mut command, Some(limit), cancelled);
    match finished.map_err(RunError::when("watch a process for a run"))? {
        Finished::Exited { exit, stdout } => judge(exit.status, &stdout),
        Finished::TooLong => Ok(RunEnd::Badly(format!("hung: no end after {} s", limit.as_secs()))),
        Finished::Cancelled => Ok(RunEnd::Interrupted),
    }
}

fn judge<T: for<'de> Deserialize<'de>>(status: ExitStatus, answer: &[u8]) -> Result<RunEnd<T>> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(RunEnd::Well(serde_json::from_slice(answer).map_err(RunError::Answer)?)),
        (Some(2), _) => Err(RunError::NotStarted),
        (_, Some(libc::SIGINT | libc::SIGTERM)) => Ok(RunEnd::Interrupted),
        (_, Some(signal)) => Ok(RunEnd::Badly(format!("died of signal {signal}"))),
        (code, None) => Ok(RunEnd::Badly(format!("ended with code {}", code.unwrap_or(-1)))),
    }
}

/// Runs in the child: does the task of `order`, prints the answer and ends the process.
pub fn obey(order: &str) -> Result<Infallible> {
    let answer = match serde_json::from_str(order).map_err(RunError::Order)? {
        Order::Run(spec) => serde_json::to_string(&run_here(&spec)?),
        Order::Pairs { locks, samples, clock } => {
            let locks = locks.iter().map(|name| lock(name)).collect::<Result<Vec<_>>>()?;
            serde_json::to_string(&time_pairs(locks, samples, clock))
        }
    };
    let answer = answer.map_err(RunError::Answer)?;
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
    written.map_err(RunError::when("answer"))?;
    // SAFETY: ends the process, whatever its other threads do; nothing buffered is left to write.
    unsafe { libc::_exit(0) }
}

fn run_here(spec: &RunSpec) -> Result<Run> {
    let lock = lock(&spec.lock)?;
    let none = || RunError::NoLock(format!("{} with condition variables", spec.lock));
    let run = match (spec.task.waits(), spec.counted) {
        (true, counted) => lock.run_waits.ok_or_else(none)?[usize::from(counted)],
        (false, true) => lock.run_counted,
        (false, false) => lock.run,
    };
    let threads = spec.threads;
    let sample = run(spec).map_err(|source| RunError::Threads { threads, source });
    if !spec.counted {
        return sample;
    }
    let counters = Counted::counters().iter();
    let named = counters.map(|(event, count)| (event.name().into(), count)).collect();
    sample.map(|sample| Run { counters: named, ..sample })
}

fn lock(name: &str) -> Result<&'static Entry> {
    subjects::find(name).ok_or_else(|| RunError::NoLock(name.to_owned()))
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
