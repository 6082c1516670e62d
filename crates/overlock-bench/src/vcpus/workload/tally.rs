//! What one vCPU counts about itself while it runs a workload.
//!
//! Only that vCPU writes these values, on lines of its own, and outside critical sections. They are
//! not part of the world: in virtual time they cost nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock_results::stats::Histogram;

use crate::Verbs;

#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub(crate) operations: AtomicU64,
    /// Waits that have ended, those of no length included.
    pub(crate) waited: AtomicU64,
    /// How many of them were of no length, because the lock was taken at the first attempt; they
    /// are not in `waits`.
    at_once: AtomicU64,
    waits: Histogram,
    pub(crate) longest_ns: AtomicU64,
    /// When the wait that is going on began, or the last one until it has been counted; 0 is none.
    /// A vCPU that starves has no other trace.
    pub(crate) waiting_since: AtomicU64,
    /// Nanoseconds on a processor while waiting for a lock.
    pub(crate) spun_ns: AtomicU64,
    /// Nanoseconds from asking for the PM timer to having its answer.
    pub(crate) timer_ns: AtomicU64,
    /// Nanoseconds of those that were spent on a processor.
    pub(crate) timer_cpu_ns: AtomicU64,
    pub(crate) timer_reads: AtomicU64,
    /// Reads of the PM timer that were behind an earlier one of this vCPU by less than half its
    /// range.
    pub(crate) timer_backwards: AtomicU64,
}

/// A moment of a vCPU's life, on the clock and in CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_ns: u64,
    away_ns: u64,
}

impl Moment {
    /// The present moment: one reading of the clock, and one of the host's account.
    #[inline(always)]
    pub(crate) fn now<W: Verbs>() -> Self {
        Self { now_ns: W::now_ns(), away_ns: W::away_ns() }
    }
}

impl Tally {
    #[inline]
    pub(crate) fn begin<W: Verbs>(&self) -> Moment {
        let start = Moment::now::<W>();
        self.waiting_since.store(start.now_ns, Relaxed);
        start
    }

    /// Records the end of a wait that went from `start` to `end`, and returns how many nanoseconds
    /// it took. Called once the lock has been released, because this takes longer than many a
    /// critical section.
    pub(crate) fn end(&self, start: Moment, end: Moment) -> u64 {
        self.waiting_since.store(0, Relaxed);
        let wait = end.now_ns.saturating_sub(start.now_ns);
        self.waits.record(wait);
        add(&self.waited, 1);
        add(&self.spun_ns, wait.saturating_sub(end.away_ns - start.away_ns));
        if wait > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(wait, Relaxed);
        }
        wait
    }

    /// Records that a lock was taken at the first attempt, before which no clock was read.
    #[inline]
    pub(crate) fn took_at_once(&self) {
        add(&self.waited, 1);
        add(&self.at_once, 1);
    }

    pub(crate) fn waits(&self) -> &Histogram {
        let at_once = self.at_once.swap(0, Relaxed);
        self.waits.record_n(0, u32::try_from(at_once).unwrap_or(u32::MAX));
        &self.waits
    }

    /// Records a read of the PM timer that went from `start` until now.
    pub(crate) fn read<W: Verbs>(&self, start: Moment, backwards: bool) {
        let end = Moment::now::<W>();
        let took = end.now_ns - start.now_ns;
        add(&self.timer_ns, took);
        add(&self.timer_cpu_ns, took.saturating_sub(end.away_ns - start.away_ns));
        add(&self.timer_reads, 1);
        add(&self.timer_backwards, u64::from(backwards));
    }

    /// The longest wait, including one that is still going on at `now_ns`.
    pub(crate) fn longest_stall_ns(&self, now_ns: u64) -> u64 {
        let since = self.waiting_since.load(Relaxed);
        let going_on = if since == 0 { 0 } else { now_ns.saturating_sub(since) };
        self.longest_ns.load(Relaxed).max(going_on)
    }
}

#[inline]
pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed) + value, Relaxed);
}
