// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of one lock: threads that take turns in critical sections while a coordinator watches.
//!
//! It happens in its own process, which the parent starts for each run (see `isolated.rs`). That
//! bounds the damage of a collapsed lock: 64 threads that spin in order on 2 CPUs can need a minute
//! to drain after the stop, and only the end of their process stops them. It also means that no run
//! inherits the parked threads, the heap or the address layout of the one before.
//!
//! # Life of an operation
//! ```text
//!   step drawn ──► waiting(n) ────► running(n + 1) ─────► released ──► pause ...
//!     │              │ own word       │ own word, section    └ outside the lock
//!     └ sampled?     └ stamp, if so   └ stamp, if so; counter
//! ```
//! An ordinary operation reads no clock: around the lock there is a load of the step, two stores to
//! the thread's own word, a countdown to the next sample, and one load of a line that is hardly
//! ever written. The cost of these is measured without any lock, and is the *floor* of a point.
//!
//! # Invariants
//! - W1: an operation counts if it was granted between the coordinator's first and last reading of
//!   the words, and time counts between the same two readings. So it doesn't matter if they come
//!   late.
//! - W2: a thread's word shows a wait exactly while the thread is in `lock` (see `watch.rs`).
//! - W3: with no thread between its grant and its release, the protected counters together equal
//!   the sum of all threads' grants. Each counter changes by a plain load and a plain store: a lock
//!   that lets two threads in loses updates.
//!
//! # Orderings
//! `finished` carries W3: its release publishes all that the thread did to the coordinator, and a
//! thread that hasn't finished is allowed an error of one update. The rest is Relaxed: statistics
//! with one writer each, and counters that are ordered exactly as well as the lock under test
//! orders them.

use crate::histogram::{self, Histogram};
use crate::run::{RunSample, RunSpec};
use crate::sample::Sampling;
use crate::sched::Account;
use crate::steps::{STEPS, Step};
use crate::subject::Subject;
use crate::timeline::{Log, Scale, Timeline, Writer};
use crate::watch::{Progress, Watch};
use crate::work::Chain;
use overlock_process::{CpuTimes, thread_id};
use overlock_world::clock::Stamps;
use overlock_world::stats::{GRAIN, STALL_NS};
use overlock_world::{Rng, seed_of};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// How long threads may take to see the end of the window before they are given up.
///
/// Waiting lists of barging locks drain within a few scheduler rounds; a spinning queue doesn't.
const DRAIN: Duration = Duration::from_millis(100);

/// How long all threads may take to reach the lock for the first time.
const START: Duration = Duration::from_secs(5);

/// Threads that never recurse need little stack.
const STACK_BYTES: usize = 128 << 10;

/// A lock and the data that it protects, side by side as in a `Mutex<T>`.
#[repr(align(128))]
struct Cell<S> {
    lock: S,
    counter: AtomicU64,
}

impl<S: Subject> Cell<S> {
    fn new() -> Self {
        Cell { lock: S::new(), counter: AtomicU64::new(0) }
    }
}

/// The coordinator's signals to the threads, which they load once in each operation.
#[repr(align(128))]
struct Signal {
    /// The index of the present mix; beyond the last one, the run is over.
    mix: AtomicUsize,
    /// When the window began and ended, in ticks; `u64::MAX` before that.
    begin: AtomicU64,
    end: AtomicU64,
}

impl Signal {
    /// Returns whether a wait that ended at `now` counts.
    fn is_open(&self, now: u64) -> bool {
        (self.begin.load(Relaxed)..self.end.load(Relaxed)).contains(&now)
    }
}

/// A thread's word, on its own cache line: the coordinator reads it, rarely.
#[repr(align(128))]
struct Word(AtomicU64);

/// The results of one thread.
#[repr(align(128))]
struct Record {
    word: Word,
    finished: AtomicBool,
    longest: AtomicU64,
    sampled: AtomicU64,
    /// The kernel's number of the thread.
    tid: AtomicI32,
    waits: Histogram,
    log: Log,
}

impl Record {
    fn new(log: Log) -> Self {
        Record {
            word: Word(AtomicU64::new(0)),
            finished: AtomicBool::new(false),
            longest: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            tid: AtomicI32::new(0),
            waits: Histogram::new(),
            log,
        }
    }

    #[inline]
    fn set(&self, progress: Progress) {
        self.word.0.store(progress.0, Relaxed);
    }

    fn progress(&self) -> Progress {
        Progress(self.word.0.load(Relaxed))
    }

    /// Returns whether the thread has reached the lock at all.
    fn has_come(&self) -> bool {
        self.progress() != Progress::running(0)
    }

    /// Returns whether the thread has left the lock for good.
    fn has_finished(&self) -> bool {
        // ORDERING: Acquire → the store at the end of `work_loop`.
        self.finished.load(Acquire)
    }

    /// Records a stamped wait.
    #[cold]
    fn record(&self, ticks: u64) {
        self.sampled.store(self.sampled.load(Relaxed) + 1, Relaxed);
        self.waits.record(ticks);
        if ticks > self.longest.load(Relaxed) {
            self.longest.store(ticks, Relaxed);
        }
    }
}

/// The data that the threads of a run share.
struct Shared<S> {
    cells: Vec<Cell<S>>,
    signal: Signal,
    records: Vec<Record>,
    gate: Barrier,
    spec: RunSpec,
}

/// Runs `spec` with lock `S` in this process, which should end afterwards, because threads that
/// hang in the lock stay behind.
///
/// # Errors
/// If the system won't start that many threads.
pub(crate) fn run<S: Subject>(spec: &RunSpec) -> io::Result<RunSample> {
    let cells = spec.mixes.iter().map(|mix| mix.cells).max().unwrap_or(1);
    let log = || if spec.logged { Log::new(spec.threads) } else { Log::default() };
    let shared = Arc::new(Shared {
        cells: (0..cells).map(|_| Cell::<S>::new()).collect(),
        signal: Signal {
            mix: AtomicUsize::new(0),
            begin: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
        },
        records: (0..spec.threads).map(|_| Record::new(log())).collect(),
        gate: Barrier::new(spec.threads + 1),
        spec: spec.clone(),
    });
    shared.cells.iter().for_each(|cell| cell.lock.init());
    for index in 0..spec.threads {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || work_loop(&shared, index))
            .map(drop)?;
    }
    shared.gate.wait();
    Ok(coordinate(&shared))
}

/// The loop of thread `index` until the window is over.
fn work_loop<S: Subject>(shared: &Shared<S>, index: usize) {
    let spec = &shared.spec;
    let mut rng = Rng::new(seed_of(spec.seed, index as u64));
    let factor = if index == 0 { spec.uneven } else { 1 };
    let mixes: Vec<_> = spec.mixes.iter().map(|mix| mix.holding(factor).draw(&mut rng)).collect();
    let record = &shared.records[index];
    record.tid.store(thread_id(), Relaxed);
    let mut worker = Worker {
        record,
        signal: &shared.signal,
        clock: spec.clock,
        chain: Chain::new(),
        entered: 0,
        log: record.log.writer(),
    };
    let mut sampling = Sampling::new(if spec.logged { 1 } else { spec.spacing }, &mut rng);
    let mut at = 0;
    shared.gate.wait();
    for (turn, steps) in mixes.iter().enumerate() {
        while shared.signal.mix.load(Relaxed) == turn {
            let step = steps[at];
            at = (at + 1) % STEPS;
            let cell = &shared.cells[step.cell as usize];
            if !sampling.is_due() {
                worker.operation::<S, PLAIN>(cell, step);
            } else if step.cell == 0 && !worker.log.is_full() {
                worker.operation::<S, LOGGED>(cell, step);
            } else {
                worker.operation::<S, SAMPLED>(cell, step);
            }
        }
    }
    // ORDERING: Release → `has_finished`; publishes the word and the counters (W3).
    worker.record.finished.store(true, Release);
}

/// Kinds of operations: one that reads no clock, one whose wait is stamped, and one that is logged
/// with all its stamps.
const PLAIN: u8 = 0;
const SAMPLED: u8 = 1;
const LOGGED: u8 = 2;

/// One thread at work.
struct Worker<'a> {
    record: &'a Record,
    signal: &'a Signal,
    clock: Stamps,
    chain: Chain,
    entered: u64,
    log: Writer<'a>,
}

impl Worker<'_> {
    /// One critical section and the pause after it.
    #[inline(always)]
    fn operation<S: Subject, const KIND: u8>(&mut self, cell: &Cell<S>, step: Step) {
        let stamp = |clock: &Stamps| if KIND == PLAIN { 0 } else { clock.now() };
        let asked = stamp(&self.clock);
        self.record.set(Progress::waiting(self.entered));
        self.entered += 1;
        if KIND == LOGGED {
            self.log.ask(asked);
        }
        let granted = cell.lock.with(|| {
            let granted = match KIND {
                LOGGED => self.clock.now_after_loads(),
                _ => stamp(&self.clock),
            };
            self.record.set(Progress::running(self.entered));
            let seen = cell.counter.load(Relaxed);
            self.chain.spend(step.cs);
            cell.counter.store(seen + 1, Relaxed);
            if KIND == LOGGED {
                let begin = self.signal.begin.load(Relaxed);
                self.log.hold(granted, step.cs, self.clock.now(), begin);
            }
            granted
        });
        if KIND != PLAIN && self.signal.is_open(granted) {
            self.record.record(granted.saturating_sub(asked));
        }
        self.chain.spend(step.ncs);
    }
}

/// Opens the window, watches the threads in it, and sums up.
fn coordinate<S: Subject>(shared: &Shared<S>) -> RunSample {
    let Shared { signal, records, spec, .. } = shared;
    let clock = spec.clock;
    let seconds = Duration::from_secs_f64(spec.seconds);
    wait_until(START, || records.iter().all(Record::has_come));
    std::thread::sleep((seconds / 10).clamp(Duration::from_millis(5), Duration::from_millis(100)));

    let threads: Vec<i32> = records.iter().map(|record| record.tid.load(Relaxed)).collect();
    let (sched_before, times_before) = (Account::now(&threads), CpuTimes::now());
    let entries = || records.iter().map(|record| record.progress().entered()).collect::<Vec<_>>();
    let (begin, before) = (clock.now(), entries());
    signal.begin.store(begin, Relaxed);
    let watch = watch(shared, begin);
    let (end, after) = (clock.now(), entries());
    signal.end.store(end, Relaxed);
    let (sched_after, times_after) = (Account::now(&threads), CpuTimes::now());
    signal.mix.store(spec.mixes.len(), Relaxed);

    wait_until(DRAIN, || records.iter().all(Record::has_finished));
    let quantile = |q| clock.to_ns(histogram::quantile(records.iter().map(|r| &r.waits), q));
    let longest_wait = records.iter().map(|record| record.longest.load(Relaxed)).max();
    let longest_wait = longest_wait.unwrap_or(0);
    let ops: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let seconds = clock.to_ns(end - begin) / 1e9;
    let (undrained, lost_updates) = exclusion(shared);
    let sched = sched_after.since(&sched_before);
    RunSample {
        ops_per_s: ops.iter().sum::<u64>() as f64 / seconds,
        ops,
        seconds,
        sampled: records.iter().map(|record| record.sampled.load(Relaxed)).sum(),
        wait_p50_ns: quantile(0.5),
        wait_p99_ns: quantile(0.99),
        wait_p999_ns: quantile(0.999),
        wait_max_ns: clock.to_ns(longest_wait),
        wait_counts: histogram::counts(records.iter().map(|record| &record.waits))
            .map(|(ticks, count)| (clock.to_ns(ticks).round() as u64, count))
            .collect(),
        longest_stall_ns: clock.to_ns(longest_wait.max(watch.longest)),
        long_stalls: watch.long_stalls,
        cpu_s_per_s: sched.cpu,
        sched,
        timeline: spec.logged.then(|| {
            let (ticks_per_ns, links_per_ns) = (clock.ticks_per_ns(), spec.links_per_ns);
            let scale = Scale { ticks_per_ns, links_per_ns };
            Timeline::of(records.iter().map(|record| &record.log), begin, end, scale)
        }),
        disturbance: times_after.since(times_before).disturbance(sched.cpu_seconds),
        cpu_times: times_after.since(times_before),
        retaken: 0,
        undrained,
        lost_updates,
        counters: BTreeMap::new(),
    }
}

/// Watches the threads until the window is over, and switches them from mix to mix.
fn watch<S: Subject>(shared: &Shared<S>, begin: u64) -> Watch {
    let Shared { signal, records, spec, .. } = shared;
    let clock = spec.clock;
    let ticks = |span: Duration| clock.to_ticks(span.as_nanos() as f64);
    let mut watch = Watch::new(records.len(), ticks(GRAIN), clock.to_ticks(STALL_NS));
    let window = Duration::from_secs_f64(spec.seconds);
    let turns = spec.mixes.len() as u64;
    loop {
        let now = clock.now();
        for (thread, record) in records.iter().enumerate() {
            watch.look(thread, record.progress(), now);
        }
        let passed = now - begin;
        if passed >= ticks(window) {
            return watch;
        }
        let turn = usize::try_from(passed * turns / ticks(window).max(1)).unwrap_or(0);
        // All threads have this line in their caches, so it is written only when it changes.
        if turn != signal.mix.load(Relaxed) {
            signal.mix.store(turn, Relaxed);
        }
        let left = Duration::from_nanos(clock.to_ns(ticks(window) - passed) as u64);
        std::thread::sleep(GRAIN.min(left));
    }
}

/// Polls `done` until it holds or `limit` has passed.
fn wait_until(limit: Duration, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Compares the protected counters with the threads' own counts (W3).
///
/// Returns how many threads are still at the lock, and how far the counters are off beyond the one
/// update that each of those may be about to make.
fn exclusion<S: Subject>(shared: &Shared<S>) -> (usize, u64) {
    let undrained = shared.records.iter().filter(|record| !record.has_finished()).count();
    let entered: u64 = shared.records.iter().map(|record| record.progress().entered()).sum();
    let counted: u64 = shared.cells.iter().map(|cell| cell.counter.load(Relaxed)).sum();
    (undrained, counted.abs_diff(entered).saturating_sub(undrained as u64))
}

/// Times `pairs` uncontended lock and unlock pairs; returns nanoseconds for one.
pub(crate) fn pair<S: Subject>(clock: &Stamps, pairs: u32) -> f64 {
    let cell = Box::new(Cell::<S>::new());
    cell.lock.init();
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
