//! Where the time of a lock went: `bench --explain`.
//!
//! In a separate run, each thread logs three stamps of every operation: when it asked for the lock,
//! when it got it, and when it was about to release it. Afterwards all logs are merged in the order
//! of the grants, which is the order of the holders, and each moment of the lock's time is one of:
//! * **held**, between a grant and its release; part of it is **stopped**, where the critical
//!   section took 20 µs more than its work takes: its holder had no CPU;
//! * **hand-over**, free and wanted, in a span of at most 1 µs before *another* thread has it: the
//!   cost of a hand-over;
//! * **kept**, the same before the *last holder* has it again: the lock's own path, and the pause;
//! * **unseen**, free and wanted, in a longer span: the threads that wanted it slept, did not check
//!   it, or had no CPU;
//! * **unwanted**, free, and no thread had asked.
//!
//! A free span is wanted from the first request that it leaves unserved, whichever thread is served
//! next.
//! The log can't show whether a waiter had a CPU (the kernel's accounts show that for all waits
//! together, see `sched.rs`), nor what happens between a release's stamp and the release itself,
//! which counts as part of the span. Three stamps cost some tens of nanoseconds per operation: the
//! speed of the logged run over that of ordinary runs is printed beside the figures, and far below
//! 1 they are those of a workload with longer critical sections and pauses.

use overlock_results::Spent;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The longest span that counts as a hand-over, in ns: a cache line changes CPUs in 0.05 to 0.5 µs
/// and the stamps take some more; no wake-up is as short.
const HAND_OVER_NS: f64 = 1_000.0;

/// How much longer than its work a critical section is if its holder lost its CPU, in ns:
/// interrupts take less, time slices more.
const STOPPED_NS: f64 = 20_000.0;

/// The number of operations that all threads together can log: 48 MB.
const CAPACITY: usize = 3 << 19;

const NEVER: u64 = u64::MAX;

/// One operation; only the writer accesses its fields until it has finished, then the reader does.
#[derive(Debug)]
struct Entry {
    asked: AtomicU64,
    granted: AtomicU64,
    released: AtomicU64,
    links: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Log(Vec<Entry>);

impl Log {
    /// Makes a log for one of `threads`; touches its memory now, not when it is written to.
    pub(crate) fn new(threads: usize) -> Self {
        let entry = || Entry {
            asked: AtomicU64::new(NEVER),
            granted: AtomicU64::new(NEVER),
            released: AtomicU64::new(NEVER),
            links: AtomicU64::new(0),
        };
        Log((0..CAPACITY / threads.max(1)).map(|_| entry()).collect())
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { entries: &self.0, next: 0 }
    }

    fn operations(&self) -> impl Iterator<Item = Operation> + '_ {
        self.0.iter().map_while(|entry| {
            let asked = entry.asked.load(Relaxed);
            (asked != NEVER).then(|| Operation {
                asked,
                granted: entry.granted.load(Relaxed),
                released: entry.released.load(Relaxed),
                links: entry.links.load(Relaxed),
                thread: 0,
            })
        })
    }
}

#[derive(Debug)]
pub(crate) struct Writer<'a> {
    entries: &'a [Entry],
    next: usize,
}

impl Writer<'_> {
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.next == self.entries.len()
    }

    #[inline]
    pub(crate) fn ask(&mut self, now: u64) {
        let entry = &self.entries[self.next];
        entry.asked.store(now, Relaxed);
        entry.granted.store(NEVER, Relaxed);
    }

    /// Ends the operation, still inside the lock. Of the operations before the window, at `begin`,
    /// it keeps only the last.
    #[inline]
    pub(crate) fn hold(&mut self, granted: u64, links: u32, released: u64, begin: u64) {
        let entry = &self.entries[self.next];
        entry.granted.store(granted, Relaxed);
        entry.released.store(released, Relaxed);
        entry.links.store(links.into(), Relaxed);
        self.next += usize::from(released >= begin);
    }
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    asked: u64,
    /// [`NEVER`] if the thread was still waiting at the end.
    granted: u64,
    released: u64,
    links: u64,
    thread: usize,
}

/// The values of a stamp and a link.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scale {
    pub(crate) ticks_per_ns: f64,
    pub(crate) links_per_ns: f64,
}

/// Sums up the parts of `logs` between `begin` and `end`. How fast the logged run was is not known
/// here.
pub(crate) fn spent<'a>(
    logs: impl Iterator<Item = &'a Log>,
    begin: u64,
    mut end: u64,
    scale: Scale,
) -> Spent {
    let mut operations = Vec::new();
    for (thread, log) in logs.enumerate() {
        let first = operations.len();
        operations.extend(log.operations().map(|of| Operation { thread, ..of }));
        // A thread whose log is full goes on unlogged, so nothing counts from there on.
        if let Some(last) = operations[first..].last()
            && operations.len() - first == log.0.len()
        {
            end = end.min(last.released);
        }
    }
    sum(operations, begin, end.max(begin + 1), scale)
}

/// Merges the operations into one sequence.
fn sum(mut operations: Vec<Operation>, begin: u64, end: u64, scale: Scale) -> Spent {
    operations.sort_unstable_by_key(|operation| operation.granted);
    // For each grant, the first request that it or a later grant serves: from that moment on the
    // span before the grant is wanted.
    let mut wanted = vec![NEVER; operations.len() + 1];
    for (index, operation) in operations.iter().enumerate().rev() {
        wanted[index] = wanted[index + 1].min(operation.asked);
    }
    let grants = operations.iter().take_while(|operation| operation.granted < end);
    let mut ticks = Ticks { begin, end, scale, ..Ticks::default() };
    let (mut free_since, mut last, mut turns, mut sections) = (begin, None, 0_u64, 0_u64);
    let mut grants_seen = 0;
    for (index, operation) in grants.enumerate() {
        grants_seen = index + 1;
        if operation.released > begin {
            let kept = last == Some(operation.thread);
            ticks.span(free_since, operation.granted, wanted[index], kept);
            ticks.hold(operation, free_since);
            sections += 1;
            turns += u64::from(!kept);
        }
        last = Some(operation.thread);
        free_since = free_since.max(operation.released);
    }
    ticks.span(free_since, end, wanted[grants_seen], false);
    ticks.spent(sections as f64 / turns.max(1) as f64)
}

#[derive(Debug, Default)]
struct Ticks {
    begin: u64,
    end: u64,
    scale: Scale,
    held: u64,
    stopped: u64,
    hand_over: u64,
    kept: u64,
    unseen: u64,
    unwanted: u64,
    longest_unseen: u64,
}

impl Ticks {
    /// Adds a critical section; time beyond its work counts as the holder's, or as the lack of a
    /// CPU. It begins at `free_since` at the earliest: two CPUs' counters may differ a little.
    fn hold(&mut self, operation: &Operation, free_since: u64) {
        let from = operation.granted.max(free_since);
        let length = operation.released.min(self.end).saturating_sub(from);
        let work_ns = operation.links as f64 / self.scale.links_per_ns;
        let work = (work_ns * self.scale.ticks_per_ns) as u64;
        let beyond = length.saturating_sub(work);
        let is_stopped = beyond as f64 > STOPPED_NS * self.scale.ticks_per_ns;
        let stopped = if is_stopped { beyond } else { 0 };
        self.stopped += stopped;
        self.held += length - stopped;
    }

    /// Adds a span that is wanted from `wanted` on; `kept` tells whether the lock stays with its
    /// last holder.
    fn span(&mut self, from: u64, to: u64, wanted: u64, kept: bool) {
        let to = to.min(self.end);
        let middle = wanted.clamp(from.min(to), to);
        self.unwanted += middle.saturating_sub(from);
        let idle = to - middle;
        if idle as f64 > HAND_OVER_NS * self.scale.ticks_per_ns {
            self.unseen += idle;
            self.longest_unseen = self.longest_unseen.max(idle);
        } else if kept {
            self.kept += idle;
        } else {
            self.hand_over += idle;
        }
    }

    fn spent(&self, turn: f64) -> Spent {
        let span = self.end - self.begin;
        let share = |ticks: u64| ticks as f64 / span as f64;
        Spent {
            held: share(self.held),
            stopped: share(self.stopped),
            hand_over: share(self.hand_over),
            kept: share(self.kept),
            unseen: share(self.unseen),
            unwanted: share(self.unwanted),
            turn,
            longest_unseen_ns: self.longest_unseen as f64 / self.scale.ticks_per_ns,
            speed: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_results::Rng;

    const SCALE: Scale = Scale { ticks_per_ns: 1.0, links_per_ns: 1.0 };

    fn operation(thread: usize, asked: u64, granted: u64, released: u64) -> Operation {
        Operation { asked, granted, released, links: released.saturating_sub(granted), thread }
    }

    #[test]
    fn each_gap_is_what_it_is() {
        let operations = vec![
            operation(0, 100, 100, 1_100),
            // Asked during the critical section, got the lock 300 after it: a hand-over.
            operation(1, 500, 1_400, 2_400),
            // Asked 2,000 after the lock was free, and took it at once.
            operation(0, 4_400, 4_400, 5_400),
            // Asked long before, and came 3,600 late.
            operation(1, 5_000, 9_000, 9_500),
            // The last holder again, though another thread wants it.
            operation(1, 9_700, 9_700, 9_900),
            // Never got it.
            operation(2, 9_600, NEVER, NEVER),
        ];
        let found = sum(operations, 0, 20_000, SCALE);
        let share = |ticks: f64| ticks / 20_000.0;
        assert_eq!((found.held, found.kept), (share(3_700.0), share(100.0)));
        assert_eq!(found.hand_over, share(300.0));
        assert_eq!(found.unwanted, share(100.0 + 2_000.0 + 100.0));
        assert_eq!(found.unseen, share(3_600.0 + 10_100.0));
        assert_eq!((found.longest_unseen_ns, found.turn), (10_100.0, 1.25));
    }

    #[test]
    fn a_holder_without_a_cpu_is_seen() {
        let stopped = Operation { links: 1_000, ..operation(0, 0, 0, 50_000) };
        let found = sum(vec![stopped], 0, 100_000, SCALE);
        assert_eq!((found.held, found.stopped, found.unwanted), (0.01, 0.49, 0.5));
    }

    /// Random operations, with each tick judged separately.
    #[test]
    fn the_sums_are_those_of_every_single_tick() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut now, mut operations) = (0, Vec::new());
            for _ in 0..20 {
                // Some grants seem to come before the release that made way for them.
                let granted = (now + rng.below(3_000)).saturating_sub(100);
                let released = granted + rng.below(2_000);
                let asked = granted.saturating_sub(rng.below(6_000));
                operations.push(operation(rng.index(3), asked, granted, released));
                now = now.max(released);
            }
            let (begin, end) = (1_500, now - 1_000);
            let wants = |tick: u64, operation: &Operation| {
                (operation.asked..operation.granted).contains(&tick)
            };
            let (mut held, mut wanted) = (0_u64, 0_u64);
            for tick in begin..end {
                let holds = |of: &Operation| (of.granted..of.released).contains(&tick);
                let is_held = operations.iter().any(holds);
                held += u64::from(is_held);
                wanted += u64::from(!is_held && operations.iter().any(|of| wants(tick, of)));
            }
            let found = sum(operations, begin, end, SCALE);
            let ticks = |share: f64| (share * (end - begin) as f64).round() as u64;
            assert_eq!(ticks(found.held), held, "seed {seed}");
            assert_eq!(ticks(found.hand_over + found.kept + found.unseen), wanted, "seed {seed}");
            let all = found.held + found.hand_over + found.kept + found.unseen + found.unwanted;
            assert!((all - 1.0).abs() < 1e-9, "seed {seed}: {all}");
        }
    }
}
