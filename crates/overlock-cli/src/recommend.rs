// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule by which a lock is recommended.
//!
//! The lock that came out best is recommended, with one exception: if it may starve a waiter, the
//! best of those that can't is preferred when it ties, that is, when the interval of its ratio to
//! the best includes 1, or when its median is within [`NEAR_TIE`] of it. What is lost is little or
//! nothing; what is gained is that no thread waits for ever, which a throughput hides.

use crate::stats::Interval;

/// Less than this between two locks is not worth a thread that waits for ever: 5 %. Repeated
/// comparisons of one program on one machine differ by about as much.
pub(crate) const NEAR_TIE: f64 = 0.95;

/// Says whether a lock bounds how often a waiter is passed, so that nobody waits for ever.
pub(crate) fn starves_nobody(lock: &str) -> bool {
    matches!(lock, "hybrid" | "queued" | "ticket")
}

/// Says whether a lock ties with the best, of which it is `ratio` as good.
pub(crate) fn ties(ratio: Interval) -> bool {
    ratio.includes(1.0) || ratio.median >= NEAR_TIE
}

/// Chooses among `ranked` locks, the best first, each with how good it is over the best.
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
    fn a_tie_goes_to_the_lock_that_starves_nobody() {
        let one = ratio(1.0, 1.0, 1.0);
        for (other, chosen) in [
            (ratio(0.8, 0.9, 1.01), "hybrid"),
            (ratio(0.95, 0.96, 0.97), "hybrid"),
            (ratio(0.9, 0.94, 0.99), "test-and-set"),
        ] {
            assert_eq!(preferred([("test-and-set", one), ("hybrid", other)]), Some(chosen));
            // A lock that starves nobody needs no other.
            assert_eq!(preferred([("ticket", one), ("hybrid", other)]), Some("ticket"));
            let three = [("test-and-set", one), ("libc", one), ("queued", other)];
            assert_eq!(preferred(three) == Some("queued"), chosen == "hybrid");
        }
        assert_eq!(preferred([]), None);
    }
}
