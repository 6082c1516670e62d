//! Medians, and the intervals around them.
//!
//! They are medians, not means: one run that lost its CPU to a neighbour must not move the result.
//! The interval around a median is the exact, distribution-free one from order statistics: the k-th
//! smallest to the k-th largest sample covers the true median with a probability that is a binomial
//! tail and depends only on the number of samples. Below six samples no interval reaches 95 %; then
//! the interval is min..max and [`coverage`] gives its probability (75 % at three).
//!
//! Source: David and Nagaraja, *Order Statistics*, section 7.1.

use serde::{Deserialize, Serialize};

/// The confidence required of an interval when there are enough samples.
pub const CONFIDENCE: f64 = 0.95;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let skip = skipped(sorted.len());
        Some(Interval {
            median: median_sorted(&sorted)?,
            low: sorted[skip],
            high: sorted[sorted.len() - 1 - skip],
        })
    }

    pub fn includes(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns half of the width over the median: 0.05 reads "± 5 %".
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / (2.0 * self.median).abs() }
    }
}

/// Returns the probability that the interval of `n` samples covers the true median.
pub fn coverage(n: usize) -> f64 {
    if n == 0 { 0.0 } else { 1.0 - 2.0 * tail(n, skipped(n)) }
}

/// Describes how far the columns `low` and `high` of a table of `rounds` rounds can be trusted; one
/// round has none.
pub fn describe(rounds: usize) -> String {
    match rounds {
        1 => "1 round, so no interval".into(),
        n => format!("{n} rounds; low..high covers the median with {:.0} %", coverage(n) * 100.0),
    }
}

/// Returns how many samples can be dropped at each end with at least [`CONFIDENCE`] left.
fn skipped(n: usize) -> usize {
    let mut skip = 0;
    while 2 * (skip + 1) < n && 1.0 - 2.0 * tail(n, skip + 1) >= CONFIDENCE {
        skip += 1;
    }
    skip
}

/// Returns the probability that at most `k` of `n` fair coins show heads.
fn tail(n: usize, k: usize) -> f64 {
    let mut term = 0.5_f64.powf(n as f64);
    let mut sum = term;
    for i in 0..k {
        term *= (n - i) as f64 / (i + 1) as f64;
        sum += term;
    }
    sum
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_sorted(&sorted)
}

fn median_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the geometric mean, the right mean for ratios; nothing if there are no values.
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logs / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(Interval::of(&[]), None);
    }

    /// The ranks are those of the published tables for a 95 % interval of the median.
    #[test]
    fn interval_ranks_match_the_tables() {
        for (n, skip) in
            [(1, 0), (2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)]
        {
            assert_eq!(skipped(n), skip, "{n} samples");
        }
        assert_eq!(skipped(100), 39);
    }

    #[test]
    fn coverage_is_a_binomial_tail() {
        assert!(close(coverage(3), 0.75));
        assert!(close(coverage(5), 0.9375));
        assert!(close(coverage(6), 0.96875));
        assert!(close(coverage(9), 1.0 - 2.0 * 10.0 / 512.0));
        assert!(close(coverage(1), 0.0));
    }

    #[test]
    fn interval_drops_outliers_once_there_are_samples_enough() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1000.0]).unwrap();
        assert_eq!(interval, Interval { median: 5.0, low: 2.0, high: 8.0 });
        assert!(interval.includes(2.0) && !interval.includes(1.9));
        assert!(close(interval.spread(), 0.6));
    }

    #[test]
    fn geomean_is_the_mean_of_ratios() {
        assert!(close(geomean(&[0.5, 2.0]).unwrap(), 1.0));
        assert!(close(geomean(&[1.0, 10.0, 100.0]).unwrap(), 10.0));
        assert_eq!(geomean(&[]), None);
    }
}
