// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock trace`: why do a program's threads wait?
//!
//! A source says what threads do (`tracepoints`), `overlock-trace` attributes their waits, and
//! names are looked up afterwards. The machine is touched in `platform` only.

mod args;
mod chrome;
mod coarse;
mod finding;
mod folded;
mod images;
mod kernel;
mod looks;
mod names;
mod owner;
mod platform;
mod points;
mod quota;
mod records;
mod rings;
mod rows;
mod show;
mod spin;
mod symbols;
mod tracepoints;
mod tracer;

pub(crate) use args::TraceArgs;
use args::Wanted;

use crate::flags::OutputArgs;
use crate::interrupt;
use crate::machine::observe;
use crate::outcome::Outcome;
use crate::output::{self, Sink};
use crate::process::elf;
use crate::process::launch::{Ended, Running};
use crate::process::start::Plan;
use anyhow::{Context, Result, bail};
use finding::{Findings, Names};
use looks::Looks;
use overlock_trace::{Analysis, Limits};
use overlock_world::clock::Stamps;
use overlock_world::row::{Head, Row};
use quota::Stopped;
use rings::Rings;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use tracepoints::Layout;
use tracer::Tracer;

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
    let opened = open(args.source)?;
    let limits = Limits { sample_ns: 1_000_000_000 / points::CLOCK_HZ, ..Limits::default() };
    let layout = opened.as_ref().map(|(_, layout)| *layout);
    let mut tracer = Tracer::new(Analysis::new(limits), layout);
    let mut program = match args.pid {
        Some(pid) => {
            if opened.is_some() {
                tracer.images.read(pid);
                adopt(&mut tracer, pid)?;
            }
            None
        }
        None => Some(Running::start(plan(args)?)?),
    };
    tracer.is_keeping = args.timeline.is_some();
    let pid = args.pid.or_else(|| u32::try_from(program.as_ref()?.pid()).ok()).unwrap_or(0);
    let stopped = Stopped::new(pid);
    // Only now: the program must not inherit it.
    platform::hurry();
    let mut source = match opened {
        Some((rings, _)) => {
            tracer.awaited = Some(pid);
            Source::Tracepoints(rings)
        }
        None => Source::Looks(look_at(&mut tracer, pid)?),
    };
    let ended = watch(args, &mut source, &mut tracer, program.as_mut())?;
    source.end(&mut tracer);
    source.tell();

    let analysis = std::mem::replace(&mut tracer.analysis, Analysis::new(limits));
    let found = Findings::new(analysis.report(tracer.last), &tracer, stopped.since_ns());
    let machine = observe(&Stamps::calibrate());
    sink.row(&Row::Run(Head { machine, ..output::head() }))?;
    rows::rows(&found, source.name()).iter().try_for_each(|row| sink.record(row))?;
    if let Some(file) = &args.folded {
        write(file, &folded::lines(&found))?;
    }
    if let Some(file) = &args.timeline {
        write(file, &chrome::timeline(&tracer, &mut Names::new(&tracer)).to_string())?;
    }
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

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("can't write {}", file.display()))
}

/// What tells of the threads.
enum Source {
    Tracepoints(Rings),
    Looks(Looks),
}

impl Source {
    fn turn(&mut self, tracer: &mut Tracer) {
        match self {
            Source::Tracepoints(rings) => {
                rings.wait(TURN_MS);
                rings.read(tracer, rings::LATEST_NS);
                tracer.ask_for_holders();
            }
            Source::Looks(looks) => looks.turn(tracer),
        }
    }

    fn end(&mut self, tracer: &mut Tracer) {
        match self {
            Source::Tracepoints(rings) => rings.read(tracer, 0),
            Source::Looks(looks) => looks.end(tracer),
        }
    }

    /// Tells the user how good the looks were.
    fn tell(&self) {
        let Source::Looks(looks) = self else { return };
        if let Some(text) = looks.doubts() {
            output::complain(&format!("overlock: {text}"));
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Source::Tracepoints(_) => "tracepoints",
            Source::Looks(looks) if looks.is_coarse() => "coarse-looks",
            Source::Looks(_) => "looks",
        }
    }
}

/// Begins to look at the threads of a process.
fn look_at(tracer: &mut Tracer, pid: u32) -> Result<Looks> {
    tracer.images.read(pid);
    let mut looks = Looks::new();
    // Until there is no thread that was started before its parent's events were opened.
    loop {
        let new = adopt(tracer, pid)?;
        if new.is_empty() {
            // The loader may have mapped libraries before the records began.
            tracer.images.read(pid);
            return Ok(looks);
        }
        if let Err(error) = looks.add(&new) {
            output::complain(&format!("overlock: {COARSE} ({error:#})"));
            looks.be_coarse();
            // Threads that were there at the first look wait in libraries that came before them.
            tracer.images.read(pid);
            return Ok(looks);
        }
    }
}

const COARSE: &str = "no records of context switches, so the kernel's account of each thread's time \
                      is read 100 times a second instead; loops that wait are not found";

/// Opens the tracepoints, unless the user wants looks, or may have nothing else.
fn open(wanted: Wanted) -> Result<Option<(Rings, Layout)>> {
    match (wanted, tracepoints::open()) {
        (Wanted::Looks, _) => Ok(None),
        (_, Ok(opened)) => Ok(Some(opened)),
        (Wanted::Tracepoints, Err(error)) => Err(error.context(NEEDS_ROOT)),
        (Wanted::Auto, Err(error)) => {
            output::complain(&format!("overlock: {LOOKING} ({error:#})"));
            Ok(None)
        }
    }
}

const NEEDS_ROOT: &str = "the kernel's tracepoints can't be used; they need root or CAP_PERFMON";
const LOOKING: &str = "no tracepoints, so threads are looked at many times a second instead: short \
                       waits are estimated, and holders known of the C library's mutexes only";

/// Reads events until the program has ended, time is up, or Ctrl-C has come.
fn watch(
    args: &TraceArgs,
    source: &mut Source,
    tracer: &mut Tracer,
    mut program: Option<&mut Running>,
) -> Result<Option<Ended>> {
    let started = Instant::now();
    let is_over = || args.length.is_some_and(|length| started.elapsed() >= length);
    while !interrupt::seen() && !is_over() {
        source.turn(tracer);
        match (&mut program, args.pid) {
            (Some(program), _) => {
                if let Some(ended) = program.wait(Duration::ZERO)? {
                    return Ok(Some(ended));
                }
            }
            (None, Some(pid)) if !Path::new(&format!("/proc/{pid}")).exists() => break,
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
    if !Path::new(&format!("/proc/{pid}/task")).exists() {
        bail!("there is no process {pid} (or no /proc); pgrep -a NAME lists processes by name");
    }
    Ok(())
}

/// Adds the threads of a process that runs already; returns those that are new.
fn adopt(tracer: &mut Tracer, pid: u32) -> Result<Vec<u32>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.with_context(|| format!("process {pid} has ended"))?;
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
    let threads = threads.flatten().filter_map(|entry| number(entry.file_name()));
    let now = platform::now_ns();
    Ok(threads.filter(|thread| tracer.adopt(now, pid, *thread)).collect())
}
