// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has been timed of a lock, as two medians:
//!
//! * its *gap*: how soon a CPU that released it wants it again (`slot/stopwatch.rs`);
//! * its *transfer*: how long a CPU takes to load the lock word once another has written it.
//!
//! Each CPU times its own gaps and transfers, but the medians are the lock's, because all CPUs that
//! wait for a lock must judge it alike. When each CPU went by its own few gaps, the CPUs that took
//! holders to come straight back yielded at once, and lost to the others: of 57 threads with
//! critical sections of 170 ns and pauses of 710 ns, 25 had less than a twentieth of the average
//! for 0.2 s. And they are medians, because a CPU that is taken away in its gap comes back late,
//! however short its pause was.
//!
//! A lock word has no room for them, so they lie in the lock's bucket of the table of waiters.
//! Locks that share a bucket share them, and a new lock begins with those of earlier ones. While
//! there is always a queue, no gap is timed, and its median stays as it is.
//!
//! The medians take no part in any lock's protocol: any value of them is a correct one. So they
//! are a plain atomic, which no model sees.
//!
//! Source: Q. Ma, S. Muthukrishnan, M. Sandler, "Frugal Streaming for Estimating Quantiles", 2013
//! (Frugal-1U, but with steps in proportion to the estimate).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// A new time moves its median by one part in so many, and by at least a nanosecond: two dozen take
/// it from 55 to 250 ns, and it comes to rest within a step of the true median.
const STEPS: u32 = 16;
/// The transfer that is assumed until one has been timed, in nanoseconds.
const FIRST_TRANSFER_NS: u32 = 70;
/// A look that seems to have taken longer was interrupted, or the clock is too slow for timing it.
/// It does not count.
const LONGEST_TRANSFER_NS: u32 = 1_000;
/// A longer gap counts as one of this length, which no hand-over reaches. So a median that an
/// exceptional gap began with is right again after 50 usual ones.
const LONGEST_GAP_NS: u32 = 4 * LONGEST_TRANSFER_NS;

/// The running medians of a lock's recent gaps and transfers.
#[derive(Debug)]
pub(crate) struct Timings {
    /// The median gap in nanoseconds, and in the upper half the median transfer. Zero if none has
    /// been timed.
    medians: AtomicU32,
}

impl Timings {
    pub(crate) const fn new() -> Self {
        Self { medians: AtomicU32::new(0) }
    }

    /// The median gap, in nanoseconds; zero if none has been timed.
    pub(crate) fn gap_ns(&self) -> u32 {
        self.medians.load(Relaxed) & 0xffff
    }

    /// The median transfer, in nanoseconds. It includes one reading of the clock.
    pub(crate) fn transfer_ns(&self) -> u32 {
        match self.medians.load(Relaxed) >> 16 {
            0 => FIRST_TRANSFER_NS,
            median => median,
        }
    }

    /// Notes a gap of `ns` nanoseconds.
    pub(crate) fn note_gap(&self, ns: u32) {
        self.change(|gap, transfer| (moved(gap, ns.min(LONGEST_GAP_NS)), transfer));
    }

    /// Notes a transfer that took `ns` nanoseconds.
    pub(crate) fn note_transfer(&self, ns: u32) {
        if ns <= LONGEST_TRANSFER_NS {
            self.change(|gap, transfer| (gap, moved(transfer, ns)));
        }
    }

    /// If several CPUs note times at once, some of these do not count.
    fn change(&self, new: impl FnOnce(u32, u32) -> (u32, u32)) {
        let seen = self.medians.load(Relaxed);
        let (gap, transfer) = new(seen & 0xffff, seen >> 16);
        // Not a store: a CPU that is taken away here must not undo what others note meanwhile.
        let _ = self.medians.compare_exchange(seen, gap | transfer << 16, Relaxed, Relaxed);
    }
}

/// A median, moved towards `ns`. The first time is the median. A time counts as at least 1 ns,
/// because zero means that there was none.
fn moved(median: u32, ns: u32) -> u32 {
    let ns = ns.max(1);
    let step = median / STEPS + 1;
    match median {
        0 => ns,
        less if less < ns => ns.min(median + step),
        _ => ns.max(median - step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_begins_with_the_first_time_and_follows_the_others_up_and_down() {
        let timings = Timings::new();
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (0, FIRST_TRANSFER_NS));
        timings.note_gap(300);
        timings.note_transfer(90);
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (300, 90));
        for lasts_ns in [2_000, 20] {
            (0..100).for_each(|_| timings.note_gap(lasts_ns));
            assert_eq!((timings.gap_ns(), timings.transfer_ns()), (lasts_ns, 90));
        }
        (0..100).for_each(|_| timings.note_transfer(400));
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (20, 400));
    }

    #[test]
    fn a_few_long_times_do_not_move_a_median_far() {
        let timings = Timings::new();
        for time in 0..1_000 {
            timings.note_gap(if time % 3 == 2 { u32::MAX } else { 100 });
            assert!((90..=107).contains(&timings.gap_ns()), "{}", timings.gap_ns());
        }
    }

    #[test]
    fn one_exceptional_time_is_soon_forgotten() {
        let timings = Timings::new();
        timings.note_gap(u32::MAX);
        timings.note_transfer(u32::MAX);
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (LONGEST_GAP_NS, FIRST_TRANSFER_NS));
        (0..50).for_each(|_| timings.note_gap(150));
        assert!(timings.gap_ns() < 170, "{}", timings.gap_ns());
        timings.note_transfer(0);
        (0..10_000).for_each(|_| timings.note_gap(0));
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (1, 1));
        (0..10_000).for_each(|_| timings.note_transfer(LONGEST_TRANSFER_NS));
        assert_eq!((timings.gap_ns(), timings.transfer_ns()), (1, LONGEST_TRANSFER_NS));
    }
}
