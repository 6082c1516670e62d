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
//! Like traces, these are plain atomics, because they take no part in any lock's protocol: any
//! value of them is a correct one. Only the slot's own CPU uses them.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The recent gaps of one CPU, and when it last yielded. All zero at first; a thread inherits those
/// of the last one that had its number.
#[derive(Debug)]
pub(crate) struct Gap {
    /// The lock whose gap is being timed, or zero. The lowest bit is always set.
    lock: AtomicU32,
    /// When that lock was released: the low half of [`Platform::now_ns`](crate::Platform::now_ns).
    since: AtomicU32,
    /// The sum from which [`Weights`] computes the mean.
    sum: AtomicU32,
    /// How often this CPU was about to take a lock as a newcomer.
    turns: AtomicU32,
    /// When the CPU last yielded as a newcomer, in the format of `since`.
    yielded: AtomicU32,
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
            sum: AtomicU32::new(0),
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

    /// The CPU wants `lock`. If its gap is being timed, it ends.
    pub(crate) fn end(&self, lock: u32, now_ns: impl FnOnce() -> u64, weights: Weights) {
        if self.lock.load(Relaxed) != lock | 1 {
            return;
        }
        self.lock.store(0, Relaxed);
        let gap = (now_ns() as u32).wrapping_sub(self.since.load(Relaxed));
        let sum = self.sum.load(Relaxed);
        self.sum.store(sum - sum / weights.samples + gap.min(weights.longest_ns), Relaxed);
    }

    /// The mean of the recent gaps in nanoseconds; zero if none was timed.
    pub(crate) fn mean_ns(&self, weights: Weights) -> u32 {
        self.sum.load(Relaxed) / weights.samples
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

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Weights = Weights { samples: 4, longest_ns: 1_000 };

    fn timed(gap: &Gap, lasts_ns: u64) {
        let began = u64::from(u32::MAX) - 10;
        gap.begin(7, began);
        gap.end(7, || began + lasts_ns, WEIGHTS);
    }

    #[test]
    fn the_mean_follows_the_gaps_up_and_down() {
        let gap = Gap::new();
        assert_eq!(gap.mean_ns(WEIGHTS), 0);
        for lasts_ns in [600, 20] {
            (0..40).for_each(|_| timed(&gap, lasts_ns));
            assert!(gap.mean_ns(WEIGHTS).abs_diff(lasts_ns as u32) <= 4, "{lasts_ns}");
        }
    }

    #[test]
    fn one_long_gap_counts_as_the_longest() {
        let gap = Gap::new();
        timed(&gap, 3_000_000_000);
        assert_eq!(gap.mean_ns(WEIGHTS), 250);
        (0..u32::MAX / 1_000).step_by(100_000).for_each(|_| timed(&gap, u64::from(u32::MAX)));
        assert!(gap.mean_ns(WEIGHTS) <= WEIGHTS.longest_ns);
    }

    #[test]
    fn only_the_lock_that_is_timed_ends_a_gap_and_only_once() {
        let gap = Gap::new();
        gap.begin(7, 0);
        gap.end(9, || panic!("another lock"), WEIGHTS);
        gap.end(7, || 400, WEIGHTS);
        gap.end(7, || panic!("it has ended"), WEIGHTS);
        assert_eq!(gap.mean_ns(WEIGHTS), 100);
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
