//! A program that is watched, by the best source that is available.

use crate::analysis::{Analysis, Limits};
use crate::exports::slices::Slices;
use crate::exports::{chrome, firefox, window};
use crate::sources::looks::{self, Looks};
use crate::sources::points::{self, Layout};
use crate::sources::preload::Preload;
use crate::sources::quota::Stopped;
use crate::sources::rings::{Rings, online};
use crate::sources::tracer::{MOST_EVENTS, Tracer};
use crate::sources::{account, platform, tracepoints};
use crate::verdicts::{Facts, Findings, Names, share};
use anyhow::{Context, Result};
use overlock_results::row::TimelineRow;
use std::os::fd::RawFd;

/// How long the reader of the rings sleeps at most. At first it sleeps less, as many programs end
/// soon.
const TURN_MS: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Tracepoints, or else a preloaded library, or else looks.
    Auto,
    Tracepoints,
    /// A preloaded library, or an error.
    Preload,
    Looks,
}

/// What happened to a program before it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It was started after the source was opened.
    Fresh,
    Running,
}

/// An open source, before the program starts.
#[derive(Debug)]
pub struct Opened {
    source: Source,
    /// Of tracepoints.
    layout: Option<Layout>,
    can_preload: bool,
}

/// What a program needs so that it tells of its waits.
#[derive(Debug)]
pub struct Needs {
    /// A descriptor that it has to inherit.
    pub descriptor: RawFd,
    /// A variable of its environment, and its value.
    pub variable: (&'static str, String),
}

impl Opened {
    /// Opens the tracepoints, or the best source that the user wants and may have.
    /// `can_preload` says why a library can't be preloaded into the program.
    ///
    /// # Errors
    /// If only one source will do, and it can't be had.
    pub fn new(
        wanted: Wanted,
        can_preload: &dyn Fn() -> Result<()>,
        note: &dyn Fn(&str),
    ) -> Result<Self> {
        let preloadable = can_preload();
        let can_preload = preloadable.is_ok();
        let tracepoints = match wanted {
            Wanted::Auto | Wanted::Tracepoints => Some(tracepoints::open()),
            Wanted::Preload | Wanted::Looks => None,
        };
        let (source, layout) = match (wanted, tracepoints, preloadable) {
            (_, Some(Ok((rings, layout))), _) => (Source::Tracepoints(rings), Some(layout)),
            (Wanted::Tracepoints, Some(Err(error)), _) => return Err(error.context(NEEDS_ROOT)),
            (Wanted::Preload, _, Err(why)) => return Err(why),
            (Wanted::Preload | Wanted::Auto, _, Ok(())) => (Source::Preload(Preload::new()?), None),
            (_, Some(Err(error)), Err(why)) => {
                note(&format!("{LOOKING} ({error:#}; {why:#})"));
                (Source::Looks(Looks::new()), None)
            }
            _ => (Source::Looks(Looks::new()), None),
        };
        Ok(Opened { source, layout, can_preload })
    }

    /// Returns what the program needs if it has to preload the library of this crate.
    #[must_use]
    pub fn needs(&self) -> Option<Needs> {
        let Source::Preload(preload) = &self.source else { return None };
        Some(Needs { descriptor: preload.descriptor(), variable: preload.variable() })
    }
}

/// What a record, or an event that a thread tells, takes of the program's time, in nanoseconds: an
/// estimate.
const RECORD_NS: u64 = 500;
const NEEDS_ROOT: &str = "the kernel's tracepoints can't be used; they need root or CAP_PERFMON";
const LOOKING: &str = "no tracepoints, so threads are looked at many times a second instead: short \
                       waits are estimated, and holders known of the C library's mutexes only";
const ACCOUNTS: &str = "no records of context switches, so the kernel's account of a holder's time is read when a \
                        wait for a mutex or by a read-write lock's writer begins and ends: what the holder did is \
                        known where one thread held the lock all the while, and is rough in waits shorter than \
                        10 ms; of loops that wait, those that yield are found";
const COARSE: &str = "no records of context switches, so the kernel's account of each thread's time \
                      is read 100 times a second instead; loops that wait are not found";

/// What tells of the threads.
#[derive(Debug)]
enum Source {
    Tracepoints(Rings),
    Preload(Preload),
    Looks(Looks),
}

/// Which files for other tools are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A timeline for Perfetto and Chrome.
    pub timeline: bool,
    /// A profile for the Firefox Profiler.
    pub profile: bool,
}

pub struct Session {
    source: Source,
    tracer: Tracer,
    stopped: Stopped,
    can_preload: bool,
    files: Files,
    turns: u64,
    /// The processor time of this process before.
    cpu_ns: u64,
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
    pub source: &'static str,
    /// A timeline for Perfetto and Chrome, if one is wanted.
    pub timeline: Option<String>,
    /// A profile for the Firefox Profiler, if one is wanted.
    pub profile: Option<String>,
    /// What threads did around the longest wait, if one was seen.
    pub window: Option<TimelineRow>,
    /// What makes the figures worse than they look.
    pub doubts: Option<String>,
    /// The kernel takes a while to close its tracepoints: for as long as this lives, it need not.
    pub open: Box<dyn std::any::Any>,
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
        files: Files,
        note: &dyn Fn(&str),
    ) -> Result<Self> {
        let Opened { mut source, layout, can_preload } = opened;
        let limits = Limits { sample_ns: 1_000_000_000 / points::CLOCK_HZ, ..Limits::default() };
        let mut tracer = Tracer::new(Analysis::new(limits), layout);
        if let (Start::Running, Source::Tracepoints(rings)) = (start, &source) {
            // Records tell of the time since the source was opened, and have not had their turn.
            for (process, thread) in adopt(&mut tracer, pid, rings.since)? {
                looks::begin(&mut tracer, process, thread);
            }
        }
        if files != Files::default() {
            tracer.most_kept = MOST_EVENTS;
        }
        let stopped = Stopped::new(pid);
        platform::hurry();
        match &mut source {
            Source::Tracepoints(_) => tracer.awaited = Some(pid),
            Source::Preload(preload) => {
                let is_fine = follow(&mut tracer, pid, &mut |new| preload.rings.follow(new))?;
                if let Err(error) = is_fine.and_then(|()| preload.rings.start()) {
                    note(&format!("{ACCOUNTS} ({error:#})"));
                    preload.be_coarse();
                }
                if start == Start::Fresh {
                    tracer.analysis.begin(platform::now_ns());
                }
                preload.watched();
            }
            Source::Looks(looks) => {
                let is_fine = follow(&mut tracer, pid, &mut |new| looks.rings.follow(new))?;
                if let Err(error) = is_fine.and_then(|()| looks.rings.start()) {
                    note(&format!("{COARSE} ({error:#})"));
                    looks.be_coarse();
                }
            }
        }
        let cpu_ns = platform::cpu_ns();
        Ok(Session { source, tracer, stopped, can_preload, files, turns: 0, cpu_ns })
    }

    /// Takes in what has happened; sleeps for some milliseconds.
    pub fn turn(&mut self) {
        match &mut self.source {
            Source::Tracepoints(rings) => {
                // A quota is told from a neighbour by the kernel's call chain.
                rings.turn(self.tracer.switches, self.tracer.stops.are_none());
                rings.turn_records(self.tracer.switches, self.tracer.news);
                self.turns += 1;
                rings.wait(&mut self.tracer, TURN_MS.min(self.turns));
                rings.read(&mut self.tracer, platform::now_ns());
                self.tracer.ask_for_holders();
            }
            Source::Preload(preload) => {
                preload.turn(&mut self.tracer);
                self.tracer.ask_for_holders();
            }
            Source::Looks(looks) => looks.turn(&mut self.tracer),
        }
        let Tracer { python, threads, images, .. } = &mut self.tracer;
        python.look(threads, images);
    }

    fn source_name(&self) -> &'static str {
        match &self.source {
            Source::Tracepoints(_) => "tracepoints",
            Source::Preload(preload) if preload.is_coarse() => "preload-accounts",
            Source::Preload(_) => "preload",
            Source::Looks(looks) if looks.is_coarse() => "coarse-looks",
            Source::Looks(_) => "looks",
        }
    }

    #[must_use]
    pub fn end(mut self) -> Seen {
        let doubts = match &mut self.source {
            Source::Tracepoints(rings) => {
                rings.read(&mut self.tracer, u64::MAX);
                rings.stop();
                self.tracer.tell_found(u64::MAX);
                None
            }
            Source::Preload(preload) => {
                preload.end(&mut self.tracer);
                preload.doubts()
            }
            Source::Looks(looks) => {
                looks.end(&mut self.tracer);
                looks.doubts()
            }
        };
        let source = self.source_name();
        let tracer = &mut self.tracer;
        let analysis = std::mem::take(&mut tracer.analysis);
        let report = analysis.report(tracer.last);
        let own = platform::cpu_ns() - self.cpu_ns;
        let inside = tracer.records * RECORD_NS;
        let processors = online().map_or(1, |all| all.len());
        let all = report.elapsed_ns.saturating_mul(processors as u64);
        let facts = Facts {
            quota: tracer.stops.limit(),
            processors: tracer.stops.allowed().map_or(processors, |some| some.min(processors)),
            can_preload: self.can_preload,
            hides: tracer.images.has_go().then_some("Go"),
            cost: share(own + inside, all).min(1.0),
            lost: tracer.lost,
            others: tracer.others(),
            stopped_ns: self.stopped.since_ns(),
            is_by_looks: matches!(self.source, Source::Looks(_)),
            is_secret: matches!(&self.source, Source::Looks(looks) if looks.are_secret()),
        };
        let findings = Findings::new(report, tracer, facts);
        let tracer = &self.tracer;
        let mut names = Names::new(tracer);
        let files = self.files;
        let slices = Slices::new(tracer, &mut names);
        let timeline = files.timeline.then(|| chrome::timeline(&slices, &mut names).to_string());
        let profile = files.profile.then(|| firefox::profile(&slices, &findings, &mut names));
        let window = window(tracer, &slices, &mut names, source);
        let open = Box::new(self.source);
        Seen { findings, source, timeline, profile, window, doubts, open }
    }
}

/// Begins to follow the threads of a process; says why its events can't be opened.
fn follow(
    tracer: &mut Tracer,
    pid: u32,
    add: &mut dyn FnMut(&[u32]) -> Result<()>,
) -> Result<Result<()>> {
    tracer.images.read(pid);
    // Until there is no thread that was started before its parent's events were opened.
    loop {
        let new = adopt(tracer, pid, platform::now_ns())?;
        let threads: Vec<u32> = new.iter().map(|(_, thread)| *thread).collect();
        let added = add(&threads);
        if new.is_empty() || added.is_err() {
            // The loader may have mapped libraries before the records began, and threads that were
            // there at the first look wait in them.
            tracer.images.read(pid);
            return Ok(added);
        }
    }
}

/// Adds the threads of a process that runs already, and of all that it has started, which come into
/// view at a time; returns those that are new, each with its process.
fn adopt(tracer: &mut Tracer, pid: u32, at: u64) -> Result<Vec<(u32, u32)>> {
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
        for thread in threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        {
            if tracer.adopt(at, process, thread) {
                new.push((process, thread));
            }
            processes.extend(account::children(process, thread));
        }
    }
    Ok(new)
}
