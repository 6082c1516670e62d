// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock trace`: why do a program's threads wait?
//!
//! A source says what threads do (`tracepoints`), `overlock-trace` attributes their waits, and
//! names are looked up afterwards. The machine is touched in `platform` only.

mod args;
mod finding;
mod images;
mod kernel;
mod names;
mod platform;
mod records;
mod rows;
mod show;
mod spin;
mod symbols;
mod tracepoints;

pub(crate) use args::TraceArgs;

use crate::args::OutputArgs;
use crate::machine::observe;
use crate::output::{self, Sink};
use crate::process::elf;
use crate::process::launch::{Ended, Running};
use crate::process::start::Plan;
use crate::{Outcome, interrupt};
use anyhow::{Context, Result, bail};
use finding::Findings;
use overlock_trace::{Analysis, Limits};
use overlock_world::clock::Stamps;
use overlock_world::row::{Head, Row};
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tracepoints::{Tracepoints, Tracer};

/// How long the reader of the rings sleeps at most.
const TURN_MS: i32 = 20;

/// Runs the sub-command.
pub(crate) fn main(args: &TraceArgs) -> Result<Outcome> {
    let out = OutputArgs { json: args.json, out: args.out.clone() };
    let mut sink = Sink::open(&out)?;
    interrupt::watch()?;
    if let Some(pid) = args.pid {
        can_be_watched(pid)?;
    }
    let mut source = Tracepoints::open()?;
    let limits = Limits { sample_ns: 1_000_000_000 / tracepoints::CLOCK_HZ, ..Limits::default() };
    let mut tracer = Tracer::new(Analysis::new(limits));
    let mut program = match args.pid {
        Some(pid) => {
            adopt(&mut tracer, pid)?;
            None
        }
        None => {
            let program = Running::start(plan(args)?)?;
            tracer.awaited = u32::try_from(program.pid()).ok();
            Some(program)
        }
    };
    // Only now: the program must not inherit it.
    platform::hurry();
    let started = Instant::now();
    let ended = watch(args, &mut source, &mut tracer, program.as_mut(), started)?;
    source.read(&mut tracer, true);
    drop(source);

    let analysis = std::mem::replace(&mut tracer.analysis, Analysis::new(limits));
    let found = Findings::new(analysis.report(tracer.last), &tracer);
    let machine = observe(&Stamps::calibrate());
    sink.row(&Row::Run(Head { machine, ..output::head() }))?;
    rows::rows(&found, "tracepoints").iter().try_for_each(|row| sink.record(row))?;
    sink.people(&show::text(&found, args.top))?;
    match (ended, program) {
        (None, Some(mut program)) if !interrupt::seen() => {
            output::complain("overlock: the watching has ended, and the program goes on");
            while !interrupt::seen() && program.wait(Duration::from_millis(100))?.is_none() {}
        }
        (Some(end), _) if end != Ended::Code(0) => {
            output::complain(&format!("overlock: the program {end}"));
        }
        _ => {}
    }
    sink.end(Outcome::Fine)
}

/// Reads events until the program has ended, time is up, or Ctrl-C has come.
fn watch(
    args: &TraceArgs,
    source: &mut Tracepoints,
    tracer: &mut Tracer,
    mut program: Option<&mut Running>,
    started: Instant,
) -> Result<Option<Ended>> {
    let is_over = || args.length.is_some_and(|length| started.elapsed() >= length);
    while !interrupt::seen() && !is_over() {
        source.wait(TURN_MS);
        source.read(tracer, false);
        match (&mut program, args.pid) {
            (Some(program), _) => {
                if let Some(ended) = program.wait(Duration::ZERO)? {
                    return Ok(Some(ended));
                }
            }
            (None, Some(pid)) if !std::path::Path::new(&format!("/proc/{pid}")).exists() => break,
            _ => {}
        }
    }
    // Ctrl-C reaches the program, too; its last words belong to it.
    if interrupt::seen()
        && let Some(program) = program
    {
        return program.wait(Duration::from_secs(1));
    }
    Ok(None)
}

fn plan(args: &TraceArgs) -> Result<Plan> {
    let (program, rest) = args.command.split_first().context("no program was given")?;
    let mut plan = Plan::new(elf::find(program)?, rest.to_vec());
    if args.json {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        plan.streams[1] = Some(File::from(stderr.context("can't copy standard error")?));
    }
    Ok(plan)
}

fn can_be_watched(pid: u32) -> Result<()> {
    if !std::path::Path::new(&format!("/proc/{pid}/task")).exists() {
        bail!("there is no process {pid} (or no /proc); pgrep -a NAME lists processes by name");
    }
    Ok(())
}

/// Adds the threads of a process that runs already.
fn adopt(tracer: &mut Tracer, pid: u32) -> Result<()> {
    tracer.images.read(pid);
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.with_context(|| format!("process {pid} has ended"))?;
    let now = platform::now_ns();
    for thread in threads.flatten() {
        if let Some(thread) = thread.file_name().to_str().and_then(|name| name.parse().ok()) {
            tracer.adopt(now, pid, thread);
        }
    }
    Ok(())
}
