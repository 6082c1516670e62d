// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of one lock: threads that take turns in a critical section while a coordinator watches.
//!
//! It happens in a process of its own, which the parent starts for each run (see `child.rs`). That
//! is what bounds a collapsed lock: 64 threads that spin in order on 2 CPUs can need a minute to
//! drain after the stop, and nothing but the end of their process stops them. It also means that no
//! run inherits the parked threads, the heap or the address layout of the one before.
//!
//! # Life of an acquisition
//! ```text
//!   asked ──────────► granted ─────────────► released ────────► asked ...
//!     │  waiting_since    │ section, counter       │  wait recorded, pause
//!     └ stamp, published  └ stamp                  └ outside the lock
//! ```
//!
//! # Invariants
//! - W1: an operation counts if it was *granted* inside the window `[begin, end)`. Both ends are
//!   set before the window opens, so it closes on time even if the coordinator gets no CPU then.
//! - W2: `waiting_since` is non-zero exactly while its thread is in `lock`, so the coordinator sees
//!   a thread that is starved, which itself can leave no sample.
//! - W3: with no thread between `granted` and `released`, the protected counter equals the sum of
//!   all threads' `entered`. It is a plain load and a plain store: a lock that lets two in loses
//!   updates.
//!
//! # Orderings
//! `finished` carries W3: its release publishes all that the thread did to the coordinator, and a
//! thread that hasn't finished is allowed an error of one update. The rest is Relaxed: statistics
//! with one writer each, and a counter that is exactly as ordered as the lock under test makes it.

use super::histogram::{self, Histogram};
use super::subjects::Subject;
use super::work;
use crate::clock::Clock;
use crate::machine::CpuTimes;
use crate::sys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// A wait this long is what a user notices, so it is counted.
pub(crate) const STALL_NS: f64 = 50e6;

/// How long threads may take to see the end of the window before they are given up.
///
/// Waiting lists of barging locks drain within a few scheduler rounds; a spinning queue doesn't.
const DRAIN: Duration = Duration::from_millis(100);

/// How long all threads may take to come to the lock for the first time.
const START: Duration = Duration::from_secs(5);

/// Threads that never recurse need little stack.
const STACK_BYTES: usize = 128 << 10;

/// What to run, as the parent tells it to its child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    pub(crate) lock: String,
    pub(crate) threads: usize,
    /// Links of work inside and between critical sections.
    pub(crate) cs_links: u64,
    pub(crate) ncs_links: u64,
    /// Length of the window in seconds.
    pub(crate) seconds: f64,
    /// Whether to count the lock's events.
    pub(crate) counted: bool,
    pub(crate) clock: Clock,
}

/// What one run measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunSample {
    pub(crate) ops_per_s: f64,
    /// Acquisitions of each thread inside the window.
    pub(crate) ops: Vec<u64>,
    /// The window as it really was, in seconds.
    pub(crate) seconds: f64,
    pub(crate) wait_p50_ns: f64,
    pub(crate) wait_p99_ns: f64,
    pub(crate) wait_p999_ns: f64,
    pub(crate) wait_max_ns: f64,
    /// The longest time any thread stood before the lock, granted or not.
    pub(crate) longest_stall_ns: f64,
    /// Stalls longer than [`STALL_NS`].
    pub(crate) long_stalls: u64,
    pub(crate) cpu_s_per_s: f64,
    /// The machine's CPU ticks during the window, and how many were stolen.
    pub(crate) cpu_times: CpuTimes,
    /// Threads that hadn't left the lock when they were given up.
    pub(crate) undrained: usize,
    /// Updates that the protected counter lost (or won): not 0 is a broken lock.
    pub(crate) lost_updates: u64,
    /// Events of the lock by Linux's names, warm-up included; empty unless they were counted.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// The lock and what it protects, side by side as in a `Mutex<T>`.
#[repr(align(128))]
struct Cell<S> {
    lock: S,
    counter: AtomicU64,
}

/// The measured span, in ticks; `u64::MAX` until it is known.
#[repr(align(128))]
struct Window {
    begin: AtomicU64,
    end: AtomicU64,
}

/// What one thread leaves behind, on cache lines of its own.
#[repr(align(128))]
struct Record {
    waiting_since: AtomicU64,
    entered: AtomicU64,
    counted: AtomicU64,
    longest: AtomicU64,
    long_stalls: AtomicU64,
    /// The wait that the end of the window cut short, up to that end.
    cut_short: AtomicU64,
    finished: AtomicBool,
    waits: Histogram,
}

impl Record {
    fn new() -> Self {
        Record {
            waiting_since: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            long_stalls: AtomicU64::new(0),
            cut_short: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            waits: Histogram::new(),
        }
    }

    /// Says whether the thread has come to the lock at all.
    fn has_come(&self) -> bool {
        self.entered.load(Relaxed) > 0 || self.waiting_since.load(Relaxed) > 0
    }

    /// Says whether the thread has left the lock for good.
    fn has_finished(&self) -> bool {
        // ORDERING: Acquire → the store at the end of `work_loop`.
        self.finished.load(Acquire)
    }

    /// The wait that was in progress at `end`: told by the thread itself if it has got away, and
    /// otherwise by the stamp of when it came.
    fn wait_at(&self, end: u64) -> u64 {
        if self.has_finished() {
            return self.cut_short.load(Relaxed);
        }
        match self.waiting_since.load(Relaxed) {
            0 => 0,
            since => end.saturating_sub(since),
        }
    }

    /// Counts a wait of `ticks`, if it came to an end inside the window.
    #[inline]
    fn record(&self, ticks: u64, stall: u64) {
        bump(&self.counted);
        self.waits.record(ticks);
        if ticks > self.longest.load(Relaxed) {
            self.longest.store(ticks, Relaxed);
        }
        if ticks > stall {
            bump(&self.long_stalls);
        }
    }
}

/// Adds one to a counter that only this thread writes.
#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// Everything that the threads of a run share.
struct Shared<S> {
    cell: Cell<S>,
    window: Window,
    records: Vec<Record>,
    gate: Barrier,
    spec: RunSpec,
}

/// Runs `spec` with lock `S` in this process, which should end afterwards: threads that hang in the
/// lock stay behind.
///
/// # Errors
/// If the system won't start that many threads.
pub(crate) fn run<S: Subject>(spec: &RunSpec) -> io::Result<RunSample> {
    let shared = Arc::new(Shared {
        cell: Cell { lock: S::new(), counter: AtomicU64::new(0) },
        window: Window { begin: AtomicU64::new(u64::MAX), end: AtomicU64::new(u64::MAX) },
        records: (0..spec.threads).map(|_| Record::new()).collect(),
        gate: Barrier::new(spec.threads + 1),
        spec: spec.clone(),
    });
    shared.cell.lock.settle();
    for index in 0..spec.threads {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || work_loop(&shared, &shared.records[index]))
            .map(drop)?;
    }
    shared.gate.wait();
    Ok(coordinate(&shared))
}

/// What each thread does until the window is over.
fn work_loop<S: Subject>(shared: &Shared<S>, record: &Record) {
    let RunSpec { cs_links, ncs_links, clock, .. } = shared.spec;
    let stall = clock.to_ticks(STALL_NS);
    let Cell { lock, counter } = &shared.cell;
    shared.gate.wait();
    loop {
        let asked = clock.now();
        record.waiting_since.store(asked, Relaxed);
        let granted = lock.with(|| {
            let granted = clock.now();
            record.waiting_since.store(0, Relaxed);
            let seen = counter.load(Relaxed);
            work::spend(cs_links);
            counter.store(seen + 1, Relaxed);
            bump(&record.entered);
            granted
        });
        let end = shared.window.end.load(Relaxed);
        if granted >= end {
            record.cut_short.store(end.saturating_sub(asked), Relaxed);
            break;
        }
        if granted >= shared.window.begin.load(Relaxed) {
            record.record(granted.saturating_sub(asked), stall);
        }
        work::spend(ncs_links);
    }
    // ORDERING: Release → `has_finished`; publishes `entered` and the counter (W3).
    record.finished.store(true, Release);
}

/// Sets the window and sums up what the threads did in it.
fn coordinate<S: Subject>(shared: &Shared<S>) -> RunSample {
    let Shared { window, records, spec, .. } = shared;
    let clock = spec.clock;
    let seconds = Duration::from_secs_f64(spec.seconds);
    wait_until(START, || records.iter().all(Record::has_come));
    std::thread::sleep((seconds / 10).clamp(Duration::from_millis(5), Duration::from_millis(100)));

    let (cpu_before, times_before) = (sys::own_usage(), CpuTimes::now());
    let begin = clock.now();
    let end = begin + clock.to_ticks(spec.seconds * 1e9);
    window.end.store(end, Relaxed);
    window.begin.store(begin, Relaxed);
    std::thread::sleep(seconds);
    let (cpu_after, times_after) = (sys::own_usage(), CpuTimes::now());
    let watched = clock.to_ns(clock.now() - begin) / 1e9;

    wait_until(DRAIN, || records.iter().all(Record::has_finished));
    let cut_short: Vec<u64> = records.iter().map(|record| record.wait_at(end)).collect();
    let quantile = |q| clock.to_ns(histogram::quantile(records.iter().map(|r| &r.waits), q));
    let longest_wait = records.iter().map(|record| record.longest.load(Relaxed)).max();
    let longest_wait = longest_wait.unwrap_or(0);
    let stalled = cut_short.iter().filter(|ticks| clock.to_ns(**ticks) > STALL_NS).count();
    let ops: Vec<u64> = records.iter().map(|record| record.counted.load(Relaxed)).collect();
    let seconds = clock.to_ns(end - begin) / 1e9;
    let (undrained, lost_updates) = exclusion(shared);
    RunSample {
        ops_per_s: ops.iter().sum::<u64>() as f64 / seconds,
        ops,
        seconds,
        wait_p50_ns: quantile(0.5),
        wait_p99_ns: quantile(0.99),
        wait_p999_ns: quantile(0.999),
        wait_max_ns: clock.to_ns(longest_wait),
        longest_stall_ns: clock.to_ns(cut_short.iter().copied().fold(longest_wait, u64::max)),
        long_stalls: records.iter().map(|record| record.long_stalls.load(Relaxed)).sum::<u64>()
            + stalled as u64,
        cpu_s_per_s: (cpu_after.cpu_seconds - cpu_before.cpu_seconds) / watched,
        cpu_times: times_after.since(times_before),
        undrained,
        lost_updates,
        counters: BTreeMap::new(),
    }
}

/// Polls `done` until it holds or `limit` has passed.
fn wait_until(limit: Duration, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Compares the protected counter with what the threads say (W3).
///
/// Returns how many threads are still at the lock, and how far the counter is off beyond the one
/// update that each of those may be about to make.
fn exclusion<S: Subject>(shared: &Shared<S>) -> (usize, u64) {
    let undrained = shared.records.iter().filter(|record| !record.has_finished()).count();
    let entered: u64 = shared.records.iter().map(|record| record.entered.load(Relaxed)).sum();
    let off = shared.cell.counter.load(Relaxed).abs_diff(entered);
    (undrained, off.saturating_sub(undrained as u64))
}

/// Times `pairs` uncontended lock and unlock pairs; returns nanoseconds for one.
pub(crate) fn pair<S: Subject>(clock: &Clock, pairs: u32) -> f64 {
    let cell = Box::new(Cell { lock: S::new(), counter: AtomicU64::new(0) });
    cell.lock.settle();
    let spin = |pairs| {
        for _ in 0..pairs {
            std::hint::black_box(&cell).lock.with(|| std::hint::black_box(()));
        }
    };
    spin(pairs / 10);
    let start = clock.now();
    spin(pairs);
    clock.to_ns(clock.now() - start) / f64::from(pairs)
}
