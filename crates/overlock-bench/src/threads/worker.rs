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
//!   the sum of all threads' grants, those of readers apart. Each counter changes by a plain load
//!   and a plain store: a lock that lets two threads in loses updates. A reader reads it twice, and
//!   finds a writer beside it by the difference.
//!
//! # Orderings
//! `finished` carries W3: its release publishes all that the thread did to the coordinator, and a
//! thread that hasn't finished is allowed an error of one update. The rest is Relaxed: statistics
//! with one writer each, and counters that are ordered exactly as well as the lock under test
//! orders them.

use crate::clock::Stamps;
use crate::threads::run::RunSpec;
use crate::threads::sample::Sampling;
use crate::threads::sched::Account;
use crate::threads::steps::{STEPS, Step};
use crate::threads::subject::Subject;
use crate::threads::timeline::{self, Log, Scale, Writer};
use crate::threads::watch::{Progress, Watch};
use crate::threads::work::Chain;
use overlock_programs::{CpuTimes, thread_id};
use overlock_results::stats::{GRAIN, Histogram, STALL_NS, Spread, jain, merged};
use overlock_results::{Rng, Run, WaitNs, seed_of};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

mod record;
pub(crate) mod waits;

use record::Record;

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

/// What threads share under one lock.
trait Place: Send + Sync + 'static {
    fn shares(&self) -> bool {
        false
    }

    /// How often the protected counter has been updated.
    fn updates(&self) -> u64;

    /// Lets threads go that wait for a condition.
    fn wake(&self) {}
}

/// All of them are seen as one from outside of the loops.
impl<P: Place> Place for Vec<P> {
    fn shares(&self) -> bool {
        self.iter().any(Place::shares)
    }

    fn updates(&self) -> u64 {
        self.iter().map(Place::updates).sum()
    }

    fn wake(&self) {
        self.iter().for_each(Place::wake);
    }
}

impl<S: Subject> Place for Cell<S> {
    fn shares(&self) -> bool {
        S::SHARES
    }

    fn updates(&self) -> u64 {
        self.counter.load(Relaxed)
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

struct Shared<C: ?Sized> {
    signal: Signal,
    records: Vec<Record>,
    gate: Barrier,
    spec: RunSpec,
    cells: C,
}

/// Runs `spec` with lock `S` in this process, which should end afterwards, because threads that
/// hang in the lock stay behind.
pub(crate) fn run<S: Subject>(spec: &RunSpec) -> io::Result<Run> {
    let cells = spec.mixes.iter().map(|mix| mix.cells).max().unwrap_or(1);
    let cells: Vec<_> = (0..cells).map(|_| Cell::<S>::new()).collect();
    cells.iter().for_each(|cell| cell.lock.init());
    start(spec, cells, work_loop::<S>)
}

fn start<C: Place>(
    spec: &RunSpec,
    cells: Vec<C>,
    work_loop: fn(&Shared<Vec<C>>, usize),
) -> io::Result<Run> {
    let log = || if spec.logged { Log::new(spec.threads) } else { Log::default() };
    let shared = Arc::new(Shared {
        signal: Signal {
            mix: AtomicUsize::new(0),
            begin: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
        },
        records: (0..spec.threads).map(|_| Record::new(log())).collect(),
        gate: Barrier::new(spec.threads + 1),
        spec: spec.clone(),
        cells,
    });
    let work = Arc::clone(&shared);
    conduct(shared, Arc::new(move |index| work_loop(&work, index)))
}

/// Starts the threads, which do `work` with their index, and watches them: once for all locks, of
/// which only the loops are compiled.
fn conduct(
    shared: Arc<Shared<dyn Place>>,
    work: Arc<dyn Fn(usize) + Send + Sync>,
) -> io::Result<Run> {
    for index in 0..shared.spec.threads {
        let work = Arc::clone(&work);
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(index)).map(drop)?;
    }
    shared.gate.wait();
    Ok(coordinate(&shared))
}

fn work_loop<S: Subject>(shared: &Shared<Vec<Cell<S>>>, index: usize) {
    let spec = &shared.spec;
    let mut rng = Rng::new(seed_of(spec.seed, index as u64));
    let factor = if index == 0 { spec.uneven } else { 1 };
    let mixes: Vec<_> = spec.mixes.iter().map(|mix| mix.holding(factor).draw(&mut rng)).collect();
    let mut worker = Worker::new(shared, index);
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
    worker.finish();
}

/// Kinds of operations: one that reads no clock, one whose wait is stamped, and one that is logged
/// with all its stamps.
const PLAIN: u8 = 0;
const SAMPLED: u8 = 1;
const LOGGED: u8 = 2;

struct Worker<'a> {
    record: &'a Record,
    signal: &'a Signal,
    clock: Stamps,
    chain: Chain,
    entered: u64,
    /// Operations that did not only read, if some do.
    written: u64,
    torn: u64,
    log: Writer<'a>,
}

struct Stamped {
    asked: u64,
    granted: u64,
    /// Whether it was a wait to write, where others read.
    writes: bool,
}

impl<'a> Worker<'a> {
    fn new<C>(shared: &'a Shared<C>, index: usize) -> Self {
        let record = &shared.records[index];
        record.tid.store(thread_id(), Relaxed);
        Worker {
            record,
            signal: &shared.signal,
            clock: shared.spec.clock,
            chain: Chain::new(),
            entered: 0,
            written: 0,
            torn: 0,
            log: record.log.writer(),
        }
    }

    /// Leaves the lock for good.
    fn finish(&self) {
        self.record.torn.store(self.torn, Relaxed);
        // ORDERING: Release → `has_finished`; publishes the words and the counters (W3).
        self.record.finished.store(true, Release);
    }

    /// Records a wait, if it counts.
    fn stamped(&self, Stamped { asked, granted, writes }: Stamped) {
        if self.signal.is_open(granted) {
            self.record.record(granted.saturating_sub(asked), writes);
        }
    }

    /// One critical section and the pause after it.
    #[inline(always)]
    fn operation<S: Subject, const KIND: u8>(&mut self, cell: &Cell<S>, step: Step) {
        let stamp = |clock: &Stamps| if KIND == PLAIN { 0 } else { clock.now() };
        let reads = S::SHARES && step.reads;
        let writes = S::SHARES && !step.reads;
        let asked = stamp(&self.clock);
        self.record.set(Progress::waiting(self.entered, writes));
        self.entered += 1;
        if reads {
            let granted = cell.lock.share(|| {
                let granted = stamp(&self.clock);
                self.record.set(Progress::running(self.entered));
                let seen = cell.counter.load(Relaxed);
                self.chain.spend(step.cs);
                self.torn += u64::from(cell.counter.load(Relaxed) != seen);
                granted
            });
            if KIND != PLAIN {
                self.stamped(Stamped { asked, granted, writes: false });
            }
            self.chain.spend(step.ncs);
            return;
        }
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
            if S::SHARES {
                self.written += 1;
                self.record.written.store(self.written, Relaxed);
            }
            if KIND == LOGGED {
                let begin = self.signal.begin.load(Relaxed);
                self.log.hold(granted, step.cs, self.clock.now(), begin);
            }
            granted
        });
        if KIND != PLAIN {
            self.stamped(Stamped { asked, granted, writes });
        }
        self.chain.spend(step.ncs);
    }
}

/// Opens the window, watches the threads in it, and sums up.
fn coordinate(shared: &Shared<dyn Place>) -> Run {
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

    wait_until(DRAIN, || {
        shared.cells.wake();
        records.iter().all(Record::has_finished)
    });
    let ns = |ticks| clock.to_ns(ticks).round() as u64;
    let waits = Histogram::sum(records.iter().map(|record| &record.waits));
    let wait_counts: Vec<(u64, u64)> =
        waits.counts().into_iter().map(|(ticks, count)| (ns(ticks), count)).collect();
    let longest = |of: fn(&Record) -> &AtomicU64| {
        records.iter().map(|record| of(record).load(Relaxed)).max().unwrap_or(0)
    };
    let longest_wait = longest(|record| &record.longest);
    let longest_write = longest(|record| &record.longest_write).max(watch.longest_write);
    let ops: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let seconds = clock.to_ns(end - begin) / 1e9;
    let (undrained, lost) = exclusion(shared);
    let sched = sched_after.since(&sched_before);
    let times = times_after.since(times_before);
    let cpu_seconds = sched_after.process.cpu_seconds - sched_before.process.cpu_seconds;
    Run {
        seconds,
        ops_per_s: ops.iter().sum::<u64>() as f64 / seconds,
        ops_per_cpu: Spread::of(&ops),
        jain: jain(&ops),
        ops,
        wait_ns: WaitNs::of(&waits, longest_wait, ns),
        wait_counts: merged(std::iter::once(&wait_counts[..])),
        longest_stall_ns: Some(ns(longest_wait.max(watch.longest))),
        write_stall_ns: (shared.cells.shares() && longest_write > 0).then(|| ns(longest_write)),
        long_stalls: watch.long_stalls,
        cpu_s_per_s: sched.cpu,
        sched: Some(sched),
        spent: spec.logged.then(|| {
            let (ticks_per_ns, links_per_ns) = (clock.ticks_per_ns, spec.links_per_ns);
            let scale = Scale { ticks_per_ns, links_per_ns };
            timeline::spent(records.iter().map(|record| &record.log), begin, end, scale)
        }),
        steal: times.steal_share(),
        disturbance: times.disturbance(cpu_seconds),
        undrained,
        lost,
        ..Run::default()
    }
}

/// Watches the threads until the window is over, and switches them from mix to mix.
fn watch(shared: &Shared<dyn Place>, begin: u64) -> Watch {
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
fn exclusion(shared: &Shared<dyn Place>) -> (u32, u64) {
    let undrained = shared.records.iter().filter(|record| !record.has_finished()).count() as u32;
    let made = |record: &Record| match shared.cells.shares() {
        true => record.written.load(Relaxed),
        false => record.progress().entered(),
    };
    let made: u64 = shared.records.iter().map(made).sum();
    let counted: u64 = shared.cells.updates();
    let torn: u64 = shared.records.iter().map(|record| record.torn.load(Relaxed)).sum();
    (undrained, counted.abs_diff(made).saturating_sub(u64::from(undrained)) + torn)
}

/// Times `pairs` uncontended lock and unlock pairs, of readers if there are any; returns
/// nanoseconds for one.
pub(crate) fn pair<S: Subject>(clock: &Stamps, pairs: u32) -> f64 {
    let cell = Box::new(Cell::<S>::new());
    cell.lock.init();
    let spin = |pairs| {
        for _ in 0..pairs {
            let lock = &std::hint::black_box(&cell).lock;
            match S::SHARES {
                true => lock.share(|| std::hint::black_box(())),
                false => lock.with(|| std::hint::black_box(())),
            }
        }
    };
    spin(pairs / 10);
    let start = clock.now();
    spin(pairs);
    clock.to_ns(clock.now() - start) / f64::from(pairs)
}
