// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule that recommends a lock.
//!
//! The lock with the best result is recommended, with one exception: if it can starve a waiter, the
//! best of those that can't is preferred on a tie, that is, when the interval of its ratio to the
//! best includes 1, or when its median is within [`NEAR_TIE`] of it. This costs little or nothing,
//! and guarantees what a throughput hides: that no thread waits for ever.

use crate::stats::Interval;

/// A difference smaller than this between two locks is not worth a thread that waits for ever: 5 %.
/// Repeated comparisons of one program on one machine differ by about as much.
pub(crate) const NEAR_TIE: f64 = 0.95;

/// Returns whether a lock bounds how often a waiter is passed, so that no thread waits for ever.
pub(crate) fn starves_nobody(lock: &str) -> bool {
    matches!(lock, "hybrid" | "queued" | "ticket")
}

/// Returns whether a lock ties with the best, given the ratio of the two.
pub(crate) fn ties(ratio: Interval) -> bool {
    ratio.includes(1.0) || ratio.median >= NEAR_TIE
}

/// Chooses among `ranked` locks, the best first, each with its ratio to the best.
pub(crate) fn preferred<'a>(
    ranked: impl IntoIterator<Item = (&'a str, Interval)>,
) -> Option<&'a str> {
    let mut ranked = ranked.into_iter();
    let (best, _) = ranked.next()?;
    if starves_nobody(best) {
        return Some(best);
    }
    let mut fair = ranked.filter(|(lock, ratio)| starves_nobody(lock) && ties(*ratio));
    Some(fair.next().map_or(best, |(lock, _)| lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Interval {
        Interval { median, low, high }
    }

    #[test]
    fn a_tie_goes_to_the_lock_that_starves_no_thread() {
        let one = ratio(1.0, 1.0, 1.0);
        for (other, chosen) in [
            (ratio(0.8, 0.9, 1.01), "hybrid"),
            (ratio(0.95, 0.96, 0.97), "hybrid"),
            (ratio(0.9, 0.94, 0.99), "test-and-set"),
        ] {
            assert_eq!(preferred([("test-and-set", one), ("hybrid", other)]), Some(chosen));
            // A lock that starves no thread needs no other.
            assert_eq!(preferred([("ticket", one), ("hybrid", other)]), Some("ticket"));
            let three = [("test-and-set", one), ("libc", one), ("queued", other)];
            assert_eq!(preferred(three) == Some("queued"), chosen == "hybrid");
        }
        assert_eq!(preferred([]), None);
    }
}
