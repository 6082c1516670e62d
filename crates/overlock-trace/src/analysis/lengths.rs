//! Lengths of time, and which part of them is how long.

use overlock_results::stats::{bucket, largest};
use std::collections::BTreeMap;

/// How many lengths of time, in nanoseconds, fell into each bucket of the results' histogram. A
/// program may wait at very many places, but seldom at most of them, so only buckets with lengths
/// take memory.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    counts: BTreeMap<usize, u64>,
}

impl Lengths {
    /// Returns how many lengths there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns a length that this part of them does not exceed, to within 0.8 %, or 0 if there are
    /// none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0, |(index, _)| largest(*index))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        *self.counts.entry(bucket(ns)).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Lengths) {
        for (index, count) in &other.counts {
            *self.counts.entry(*index).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_lengths() {
        let mut lengths = Lengths::default();
        assert_eq!((lengths.count(), lengths.quantile(0.5)), (0, 0));
        (1..=1000).rev().for_each(|us| lengths.record(us * 1000));
        for of in [1, 2] {
            assert_eq!(lengths.count(), of * 1000);
            for part in [0.001, 0.5, 0.99, 1.0] {
                let (right, found) = (part * 1e6, lengths.quantile(part) as f64);
                assert!((0.0..0.008).contains(&(found / right - 1.0)), "{found} for {right}");
            }
            lengths.merge(&lengths.clone());
        }
    }
}
