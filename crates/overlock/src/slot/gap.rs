// SPDX-License-Identifier: MIT OR Apache-2.0
//! The *gap* of a CPU: how long it stays away between its release of a lock and its next attempt to
//! take the same lock.
//!
//! The gap decides who should have a lock next. If it is shorter than a hand-over, the last holder
//! is back before another CPU could use the lock, and one CPU saturates it. Otherwise the lock
//! stands free meanwhile, and whoever waits should take it at once.
//!
//! An uncontended pair of operations can't be timed: it takes less than reading the clock does. So
//! a newcomer that has taken a lock without a queue now and then marks the word as *timed*
//! (`raw/word/queue.rs`). The mark forces the next release and the next acquisition onto their slow
//! paths:
//!
//! ```text
//!   takes the lock, marks it     releases it      wants it again
//!                                begin -----------> end
//! ```
//!
//! If another CPU takes the lock in between, it wipes the mark, and the gap ends when its own CPU
//! next finds the lock held. (If that CPU takes the lock on its fast path first, the gap seems
//! longer than it was.)
//!
//! Each CPU times its own gaps, but the mean is the lock's: all who wait for a lock must judge it
//! alike. When each CPU judged by its own few gaps, those that took the lock for one whose holders
//! come straight back yielded at once and lost to those that did not: of 57 threads with critical
//! sections of 170 ns and pauses of 710 ns, 25 had less than a twentieth of the average for 0.2 s.
//!
//! Like traces, these are plain atomics, because they take no part in any lock's protocol: any
//! value of them is a correct one. Only the slot's own CPU uses a [`Gap`]; of two CPUs that add to
//! a [`MeanGap`] at once, one may be forgotten.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The gap that one CPU is timing, and when it last yielded. All zero at first.
#[derive(Debug)]
pub(crate) struct Gap {
    /// The lock whose gap is being timed, or zero. The lowest bit is always set.
    lock: AtomicU32,
    /// When that lock was released: the low half of [`Platform::now_ns`](crate::Platform::now_ns).
    since: AtomicU32,
    /// How often this CPU was about to take a lock as a newcomer.
    turns: AtomicU32,
    /// When the CPU last yielded as a newcomer, in the format of `since`.
    yielded: AtomicU32,
}

/// The mean of a lock's recent gaps; zero if none was timed. Locks that share a
/// [bucket](crate::Bucket) share it.
#[derive(Debug)]
pub(crate) struct MeanGap {
    /// The sum from which [`Weights`] computes the mean.
    sum: AtomicU32,
}

/// How gaps are sampled and averaged: an exponentially weighted mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// One acquisition in so many is timed, and its gap counts for one part in so many of the mean.
    pub(crate) samples: u32,
    /// The longest gap that counts, in nanoseconds, so that a CPU that was taken away in its gap
    /// does not outweigh all others.
    pub(crate) longest_ns: u32,
}

impl Gap {
    pub(super) const fn new() -> Self {
        Self {
            lock: AtomicU32::new(0),
            since: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            yielded: AtomicU32::new(0),
        }
    }

    /// Whether the gap after this acquisition, or this attempt, is to be timed: the first, and then
    /// regularly.
    pub(crate) fn is_due(&self, weights: Weights) -> bool {
        let turns = self.turns.load(Relaxed);
        self.turns.store(turns.wrapping_add(1), Relaxed);
        turns.is_multiple_of(weights.samples)
    }

    /// The CPU has released `lock`, which was marked.
    pub(crate) fn begin(&self, lock: u32, now_ns: u64) {
        self.since.store(now_ns as u32, Relaxed);
        self.lock.store(lock | 1, Relaxed);
    }

    /// The CPU wants `lock`. If its gap is being timed, it ends; returns how long it was, in
    /// nanoseconds.
    pub(crate) fn end(&self, lock: u32, now_ns: impl FnOnce() -> u64) -> Option<u32> {
        if self.lock.load(Relaxed) != lock | 1 {
            return None;
        }
        self.lock.store(0, Relaxed);
        Some((now_ns() as u32).wrapping_sub(self.since.load(Relaxed)))
    }

    /// The CPU yields.
    pub(crate) fn yields(&self, now_ns: u64) {
        self.yielded.store(now_ns as u32, Relaxed);
    }

    /// How long ago the CPU last yielded, in nanoseconds. (Wraps after four seconds.)
    pub(crate) fn yielded_for_ns(&self, now_ns: u64) -> u64 {
        u64::from((now_ns as u32).wrapping_sub(self.yielded.load(Relaxed)))
    }
}

impl MeanGap {
    pub(crate) const fn new() -> Self {
        Self { sum: AtomicU32::new(0) }
    }

    /// Adds a gap of `gap_ns` nanoseconds.
    pub(crate) fn add(&self, gap_ns: u32, weights: Weights) {
        let sum = self.sum.load(Relaxed);
        self.sum.store(sum - sum / weights.samples + gap_ns.min(weights.longest_ns), Relaxed);
    }

    /// The mean, in nanoseconds.
    pub(crate) fn ns(&self, weights: Weights) -> u32 {
        self.sum.load(Relaxed) / weights.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Weights = Weights { samples: 4, longest_ns: 1_000 };

    #[test]
    fn the_mean_follows_the_gaps_up_and_down() {
        let mean = MeanGap::new();
        assert_eq!(mean.ns(WEIGHTS), 0);
        for lasts_ns in [600, 20] {
            (0..40).for_each(|_| mean.add(lasts_ns, WEIGHTS));
            assert!(mean.ns(WEIGHTS).abs_diff(lasts_ns) <= 4, "{lasts_ns}");
        }
    }

    #[test]
    fn one_long_gap_counts_as_the_longest() {
        let mean = MeanGap::new();
        mean.add(3_000_000_000, WEIGHTS);
        assert_eq!(mean.ns(WEIGHTS), 250);
        (0..40).for_each(|_| mean.add(u32::MAX, WEIGHTS));
        assert!(mean.ns(WEIGHTS) <= WEIGHTS.longest_ns);
    }

    #[test]
    fn only_the_lock_that_is_timed_ends_a_gap_and_only_once() {
        let gap = Gap::new();
        let began = u64::from(u32::MAX) - 10;
        gap.begin(7, began);
        assert_eq!(gap.end(9, || panic!("another lock")), None);
        assert_eq!(gap.end(7, || began + 400), Some(400), "the clock's low half wraps");
        assert_eq!(gap.end(7, || panic!("it has ended")), None);
    }

    #[test]
    fn the_first_acquisition_is_timed_and_then_every_fourth() {
        let gap = Gap::new();
        let due: [bool; 9] = core::array::from_fn(|_| gap.is_due(WEIGHTS));
        assert_eq!(due.map(u8::from), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn the_time_since_a_yield_survives_a_wrap_of_the_clock() {
        let gap = Gap::new();
        gap.yields(u64::from(u32::MAX));
        assert_eq!(gap.yielded_for_ns(u64::from(u32::MAX) + 50), 50);
    }
}
