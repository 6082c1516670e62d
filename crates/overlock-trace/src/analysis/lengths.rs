// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lengths of time, and which part of them is how long.

use hdrhistogram::Histogram;

/// Lengths of time in nanoseconds: each of them while they are few, a histogram from then on. That
/// takes much more memory, and a program may wait at very many places, but seldom at most of them.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    few: Vec<u64>,
    many: Option<Box<Histogram<u32>>>,
}

/// So many lengths are few.
const FEW: usize = 64;
/// What is longer counts as this.
const HOUR_NS: u64 = 3_600_000_000_000;

impl Lengths {
    /// Returns how many lengths there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.many.as_ref().map_or(self.few.len() as u64, |many| many.len())
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a length that this part of them does not exceed, to two digits if they are many, or
    /// 0 if there are none.
    #[must_use]
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        if let Some(many) = &self.many {
            return many.value_at_quantile(quantile);
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
    }

    pub(crate) fn record(&mut self, ns: u64) {
        let ns = ns.min(HOUR_NS);
        if self.many.is_none() && self.few.len() < FEW {
            self.few.push(ns);
        } else {
            self.histogram().saturating_record(ns);
        }
    }

    pub(crate) fn merge(&mut self, other: &Lengths) {
        match &other.many {
            Some(many) => *self.histogram() += &**many,
            None => other.few.iter().for_each(|ns| self.record(*ns)),
        }
    }

    /// Returns the histogram, in which they are from now on.
    fn histogram(&mut self) -> &mut Histogram<u32> {
        let few = std::mem::take(&mut self.few);
        let many = self.many.get_or_insert_with(|| {
            Box::new(Histogram::new_with_max(HOUR_NS, 2).expect("bounds that are fixed"))
        });
        few.into_iter().for_each(|ns| many.saturating_record(ns));
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(last: u64) -> Lengths {
        let mut lengths = Lengths::default();
        (1..=last).rev().for_each(|us| lengths.record(us * 1000));
        lengths
    }

    #[test]
    fn few_and_many_lengths_have_the_same_quantiles() {
        assert_eq!((up_to(0).len(), up_to(0).value_at_quantile(0.5)), (0, 0));
        for count in [1, 10, FEW as u64, FEW as u64 + 1, 1000] {
            let mut lengths = up_to(count);
            for of in [1, 2] {
                assert_eq!(lengths.len(), of * count);
                for quantile in [0.0, 0.5, 0.99, 0.999, 1.0] {
                    let right = ((quantile * count as f64).ceil().max(1.0)) * 1000.0;
                    let found = lengths.value_at_quantile(quantile) as f64;
                    assert!((found / right - 1.0).abs() < 0.01, "{found} for {right} of {count}");
                }
                lengths.merge(&up_to(count));
            }
        }
    }

    #[test]
    fn few_lengths_take_little_memory() {
        let mut both = up_to(FEW as u64 / 2);
        both.merge(&up_to(FEW as u64 / 2));
        assert!(both.many.is_none() && both.few.len() == FEW);
        both.record(u64::MAX);
        assert!(both.few.is_empty() && both.len() == FEW as u64 + 1);
        assert!(both.value_at_quantile(1.0) >= HOUR_NS);
    }
}
