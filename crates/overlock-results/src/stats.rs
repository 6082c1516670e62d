//! The few statistics that every measurement ends in.

mod histogram;
mod median;

pub use histogram::{Histogram, Sum};
pub use median::{CONFIDENCE, Interval, coverage, describe, geomean, median};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How something was spread over CPUs, vCPUs or threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub min: u64,
    pub avg: f64,
    pub max: u64,
}

impl Spread {
    pub fn of(values: &[u64]) -> Self {
        Self {
            min: values.iter().copied().min().unwrap_or(0),
            avg: values.iter().sum::<u64>() as f64 / values.len().max(1) as f64,
            max: values.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Jain's index of fairness: the square of the sum over n times the sum of squares. 1 means all are
/// equal, 1/n that one has everything; it is 1 if all values are zero (R. Jain, D. Chiu, W. Hawe,
/// "A Quantitative Measure of Fairness", DEC-TR-301, 1984).
pub fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|&v| v as f64).sum();
    let squares: f64 = values.iter().map(|&v| (v as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

/// The share of a machine's CPU time above which what the hypervisor took away affects results more
/// than locks differ.
pub const STEAL_LIMIT: f64 = 0.02;

/// A user notices a wait this long, so it is counted.
pub const STALL_NS: f64 = 50e6;

/// The time between two readings of what threads wait for, where stalls are found by readings.
///
/// A reading preempts a worker, and all of them together take about a hundredth of a CPU. Stalls
/// that people notice are ten times as long.
pub const GRAIN: Duration = Duration::from_millis(2);

/// Adds counts of waits by length: each entry counts the waits that took its number of nanoseconds
/// or less, and longer than the entry before.
pub fn merged<'a>(parts: impl Iterator<Item = &'a [(u64, u64)]>) -> Vec<(u64, u64)> {
    let mut sums = BTreeMap::<u64, u64>::new();
    for &(ns, count) in parts.flatten() {
        let sum = sums.entry(ns).or_default();
        *sum = sum.saturating_add(count);
    }
    sums.into_iter().collect()
}

/// Returns each item once, in the order in which they first appear.
pub fn unique<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_waits_are_added_by_length_and_never_overflow() {
        let parts: [&[(u64, u64)]; 2] = [&[(5, 1), (9, 2)], &[(7, u64::MAX), (9, u64::MAX)]];
        assert_eq!(merged(parts.into_iter()), [(5, 1), (7, u64::MAX), (9, u64::MAX)]);
        assert_eq!(unique([3, 1, 3, 2, 1]), [3, 1, 2]);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one_alone() {
        assert!((jain(&[5, 5, 5, 5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[9, 0, 0, 0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[1, 3]) - 0.8).abs() < 1e-12);
        assert!((jain(&[0, 0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
        assert_eq!(Spread::of(&[1, 2, 6]), Spread { min: 1, avg: 3.0, max: 6 });
    }
}
