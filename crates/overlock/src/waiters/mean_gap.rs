// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mean gap of a lock: how soon CPUs that released it want it again (`slot/gap.rs`), on
//! average.
//!
//! Each CPU times its own gaps, but the mean is the lock's, because all CPUs that wait for a lock
//! must judge it alike. When each CPU went by its own few gaps, the CPUs that took holders to come
//! straight back yielded at once, and lost to the others: of 57 threads with critical sections of
//! 170 ns and pauses of 710 ns, 25 had less than a twentieth of the average for 0.2 s.
//!
//! A lock word has no room for the mean, so it lies in the lock's bucket of the table of waiters.
//! Locks that share a bucket share it, and a new lock begins with that of earlier ones. While there
//! is always a queue, no gap is timed, and the mean stays as it is.
//!
//! The mean takes no part in any lock's protocol: any value of it is a correct one. So it is a
//! plain atomic, which no model sees.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The exponentially weighted mean of a lock's recent gaps; zero if none was timed.
#[derive(Debug)]
pub(crate) struct MeanGap {
    /// The mean, times [`Weights::samples`].
    sum: AtomicU32,
}

/// How gaps are averaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// About one acquisition in so many is timed, and its gap, unless it is the first, counts for
    /// one part in so many of the mean.
    pub(crate) samples: u32,
    /// The longest gap that counts, in nanoseconds, so that a CPU that was taken away in its gap
    /// does not outweigh all others. (A first gap of that length does, for a dozen more.)
    pub(crate) longest_ns: u32,
}

impl MeanGap {
    pub(crate) const fn new() -> Self {
        Self { sum: AtomicU32::new(0) }
    }

    /// Adds a gap of `gap_ns` nanoseconds. The first becomes the mean. A gap counts as at least 1
    /// ns, because zero means that none was timed. If several CPUs add gaps at once, some of these
    /// do not count.
    pub(crate) fn add(&self, gap_ns: u32, weights: Weights) {
        let gap_ns = gap_ns.clamp(1, weights.longest_ns);
        let sum = self.sum.load(Relaxed);
        let new = match sum {
            0 => gap_ns * weights.samples,
            _ => sum - sum / weights.samples + gap_ns,
        };
        // Not a store: a CPU that is taken away here must not undo what others add meanwhile.
        let _ = self.sum.compare_exchange(sum, new, Relaxed, Relaxed);
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
    fn the_mean_begins_with_the_first_gap_and_follows_the_others_up_and_down() {
        let mean = MeanGap::new();
        assert_eq!(mean.ns(WEIGHTS), 0);
        mean.add(300, WEIGHTS);
        assert_eq!(mean.ns(WEIGHTS), 300);
        for lasts_ns in [600, 20] {
            (0..40).for_each(|_| mean.add(lasts_ns, WEIGHTS));
            assert!(mean.ns(WEIGHTS).abs_diff(lasts_ns) <= 4, "{lasts_ns}");
        }
    }

    #[test]
    fn one_long_gap_counts_as_the_longest() {
        let mean = MeanGap::new();
        (0..40).for_each(|_| mean.add(0, WEIGHTS));
        mean.add(3_000_000_000, WEIGHTS);
        assert_eq!(mean.ns(WEIGHTS), 250);
        (0..40).for_each(|_| mean.add(u32::MAX, WEIGHTS));
        assert!(mean.ns(WEIGHTS) <= WEIGHTS.longest_ns);
    }
}
