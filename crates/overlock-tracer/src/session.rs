// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that is watched, by the best source that is available.

use crate::chrome;
use crate::finding::{Findings, Names};
use crate::looks::Looks;
use crate::points::{self, Layout};
use crate::quota::Stopped;
use crate::rings::{LATEST_NS, Rings};
use crate::tracer::Tracer;
use crate::{platform, tracepoints};
use anyhow::{Context, Result};
use overlock_trace::{Analysis, Limits};

/// How long the reader of the rings sleeps at most.
const TURN_MS: i32 = 20;

/// Which source the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Tracepoints, or else looks.
    Auto,
    /// Tracepoints, or an error.
    Tracepoints,
    /// Looks.
    Looks,
}

/// What happened to a program before it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It was started after the source was opened.
    Fresh,
    /// It was running before.
    Running,
}

/// An open source, before the program starts.
#[derive(Debug)]
pub struct Opened(Option<(Rings, Layout)>);

impl Opened {
    /// Opens the tracepoints, unless the user wants looks, or may have nothing else.
    ///
    /// # Errors
    /// If only tracepoints will do, and the kernel does not allow them.
    pub fn new(wanted: Wanted, note: &dyn Fn(&str)) -> Result<Self> {
        match (wanted, tracepoints::open()) {
            (Wanted::Looks, _) => Ok(Opened(None)),
            (_, Ok(opened)) => Ok(Opened(Some(opened))),
            (Wanted::Tracepoints, Err(error)) => Err(error.context(NEEDS_ROOT)),
            (Wanted::Auto, Err(error)) => {
                note(&format!("{LOOKING} ({error:#})"));
                Ok(Opened(None))
            }
        }
    }
}

const NEEDS_ROOT: &str = "the kernel's tracepoints can't be used; they need root or CAP_PERFMON";
const LOOKING: &str = "no tracepoints, so threads are looked at many times a second instead: short \
                       waits are estimated, and holders known of the C library's mutexes only";
const COARSE: &str = "no records of context switches, so the kernel's account of each thread's time \
                      is read 100 times a second instead; loops that wait are not found";

/// What tells of the threads.
enum Source {
    Tracepoints(Rings),
    Looks(Looks),
}

/// A program that is watched.
pub struct Session {
    source: Source,
    tracer: Tracer,
    stopped: Stopped,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("source", &self.source_name()).finish_non_exhaustive()
    }
}

/// What a session has found.
#[derive(Debug)]
pub struct Seen {
    /// Waits, loops and the verdict.
    pub findings: Findings,
    /// The name of the source.
    pub source: &'static str,
    /// A timeline for a browser, if one is wanted.
    pub timeline: Option<String>,
    /// What makes the figures worse than they look.
    pub doubts: Option<String>,
}

fn limits() -> Limits {
    Limits { sample_ns: 1_000_000_000 / points::CLOCK_HZ, ..Limits::default() }
}

impl Session {
    /// Begins to watch a process. The caller then hurries: its own priority rises, so the program
    /// must have started already.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn new(
        opened: Opened,
        (pid, start): (u32, Start),
        wants_timeline: bool,
        note: &dyn Fn(&str),
    ) -> Result<Self> {
        let layout = opened.0.as_ref().map(|(_, layout)| *layout);
        let mut tracer = Tracer::new(Analysis::new(limits()), layout);
        if start == Start::Running && opened.0.is_some() {
            adopt(&mut tracer, pid)?;
        }
        tracer.is_keeping = wants_timeline;
        let stopped = Stopped::new(pid);
        platform::hurry();
        let source = match opened.0 {
            Some((rings, _)) => {
                tracer.awaited = Some(pid);
                Source::Tracepoints(rings)
            }
            None => Source::Looks(look_at(&mut tracer, pid, note)?),
        };
        Ok(Session { source, tracer, stopped })
    }

    /// Takes in what has happened; sleeps for some milliseconds.
    pub fn turn(&mut self) {
        match &mut self.source {
            Source::Tracepoints(rings) => {
                rings.wait(TURN_MS);
                rings.read(&mut self.tracer, LATEST_NS);
                self.tracer.ask_for_holders();
            }
            Source::Looks(looks) => looks.turn(&mut self.tracer),
        }
    }

    fn source_name(&self) -> &'static str {
        match &self.source {
            Source::Tracepoints(_) => "tracepoints",
            Source::Looks(looks) if looks.is_coarse() => "coarse-looks",
            Source::Looks(_) => "looks",
        }
    }

    /// Ends the watch.
    #[must_use]
    pub fn end(mut self) -> Seen {
        let doubts = match &mut self.source {
            Source::Tracepoints(rings) => {
                rings.read(&mut self.tracer, 0);
                None
            }
            Source::Looks(looks) => {
                looks.end(&mut self.tracer);
                looks.doubts()
            }
        };
        let source = self.source_name();
        let tracer = &mut self.tracer;
        let analysis = std::mem::replace(&mut tracer.analysis, Analysis::new(limits()));
        let findings = Findings::new(analysis.report(tracer.last), tracer, self.stopped.since_ns());
        let tracer = &self.tracer;
        let timeline = tracer
            .is_keeping
            .then(|| chrome::timeline(tracer, &mut Names::new(tracer)).to_string());
        Seen { findings, source, timeline, doubts }
    }
}

/// Begins to look at the threads of a process.
fn look_at(tracer: &mut Tracer, pid: u32, note: &dyn Fn(&str)) -> Result<Looks> {
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
            note(&format!("{COARSE} ({error:#})"));
            looks.be_coarse();
            // Threads that were there at the first look wait in libraries that came before them.
            tracer.images.read(pid);
            return Ok(looks);
        }
    }
}

/// Adds the threads of a process that runs already, and of all that it has started; returns those
/// that are new.
fn adopt(tracer: &mut Tracer, pid: u32) -> Result<Vec<u32>> {
    let mut new = Vec::new();
    let mut processes = vec![pid];
    while let Some(process) = processes.pop() {
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        let threads = match threads.with_context(|| format!("process {pid} has ended")) {
            Ok(threads) => threads,
            Err(error) if process == pid => return Err(error),
            Err(_) => continue,
        };
        tracer.images.read(process);
        let now = platform::now_ns();
        for thread in threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        {
            if tracer.adopt(now, process, thread) {
                new.push(thread);
            }
            let path = format!("/proc/{process}/task/{thread}/children");
            let children = std::fs::read_to_string(path).unwrap_or_default();
            processes.extend(children.split_whitespace().filter_map(|one| one.parse::<u32>().ok()));
        }
    }
    Ok(new)
}
