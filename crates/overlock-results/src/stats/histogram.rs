//! A log-linear histogram that one thread fills and another can read at any moment.
//!
//! Each power of two is cut into 128 equal buckets, so a value is known to within 0.8 %, from 0 to
//! `u64::MAX`, in 29 KiB. Recording is a shift and a plain increment: there is one writer, so a
//! relaxed load and store suffice. The reader needs no hand-shake, because it must be able to read
//! the histogram of a thread that is stuck in a lock for ever. That rules out the crate
//! `hdrhistogram`, whose recorders have to answer the reader.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU32; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [const { AtomicU32::new(0) }; BUCKETS] }
    }
}

impl Histogram {
    /// Counts one value. Only one thread may call this.
    #[inline]
    pub fn record(&self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times. Only one thread may call this.
    #[inline]
    pub fn record_n(&self, value: u64, n: u32) {
        let count = &self.counts[bucket(value)];
        count.store(count.load(Relaxed).saturating_add(n), Relaxed);
    }

    pub fn sum<'a>(parts: impl Iterator<Item = &'a Self>) -> Sum {
        let mut sum = Sum::default();
        for part in parts {
            for (index, count) in part.counts.iter().enumerate() {
                sum.add(index, u64::from(count.load(Relaxed)));
            }
        }
        sum
    }
}

/// How many values fell into each bucket. Only buckets with values take memory: a program may wait
/// at very many places, but seldom at most of them.
#[derive(Clone, Debug, Default)]
pub struct Sum(BTreeMap<usize, u64>);

impl Sum {
    pub fn record(&mut self, value: u64) {
        self.add(bucket(value), 1);
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(index, count)| self.add(*index, *count));
    }

    fn add(&mut self, index: usize, count: u64) {
        if count > 0 {
            *self.0.entry(index).or_default() += count;
        }
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the value that a `part` of all values (0 to 1) does not exceed, as the largest one
    /// of its bucket; 0 if there are none.
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0, |(index, _)| largest(*index))
    }

    /// Counts all values by length: each entry counts those that are this large or less, and larger
    /// than the entry before. Each power of two has four entries; those without values are left
    /// out.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let mut told: Vec<(u64, u64)> = Vec::new();
        for (&index, &count) in &self.0 {
            let end = quarter_end(largest(index));
            match told.last_mut() {
                Some(entry) if entry.0 == end => entry.1 += count,
                _ => told.push((end, count)),
            }
        }
        told
    }
}

/// The end of the quarter of a power of two in which `value` is.
fn quarter_end(value: u64) -> u64 {
    value | ((1 << value.max(1).ilog2().saturating_sub(2)) - 1)
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return usize::try_from(value).unwrap_or(0);
    }
    let shift = value.ilog2() - SUB_BITS;
    // The top bit is always set after the shift, so it steps over to the next group by itself.
    (shift as usize) * SUB + usize::try_from(value >> shift).unwrap_or(0)
}

fn largest(index: usize) -> u64 {
    match index / SUB {
        0 | 1 => index as u64,
        group => (((index % SUB + SUB) as u64) << (group - 1)) + ((1 << (group - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_to_one_percent() {
        for value in (0..64).flat_map(|bit| {
            let base = 1_u64 << bit;
            [base - 1, base, base + base / 3, base + (base - 1)]
        }) {
            let found = largest(bucket(value));
            assert!(found >= value && found - value <= value / 128, "{value} became {found}");
            assert!(bucket(value) + 1 == BUCKETS || bucket(found + 1) == bucket(value) + 1);
        }
        assert_eq!(bucket(u64::MAX) + 1, BUCKETS);
    }

    #[test]
    fn counts_are_by_quarters_of_powers_of_two_and_lose_no_value() {
        for (value, end) in [(0, 0), (1, 1), (5, 5), (8, 9), (9, 9), (1024, 1279), (1279, 1279)] {
            assert_eq!(quarter_end(value), end, "{value}");
        }
        let (a, b) = (Histogram::default(), Histogram::default());
        [0, 1, 100, 110, 111, 112, 5_000_000, u64::MAX].into_iter().for_each(|v| a.record(v));
        b.record_n(112, 2);
        b.record_n(5_000_001, u32::MAX);
        b.record(5_000_001);
        let told = Histogram::sum([&a, &b].into_iter()).counts();
        let total: u64 = told.iter().map(|(_, count)| count).sum();
        assert_eq!(total, 10 + u64::from(u32::MAX), "{told:?}");
        assert!(told.contains(&(111, 3)) && told.contains(&(127, 3)), "{told:?}");
        assert!(told.is_sorted() && told.last() == Some(&(u64::MAX, 1)), "{told:?}");
    }

    #[test]
    fn quantiles_of_two_threads_together() {
        let (a, b) = (Histogram::default(), Histogram::default());
        a.record_n(10, 900);
        b.record_n(20, 99);
        b.record(1 << 40);
        let sum = Histogram::sum([&a, &b].into_iter());
        let at = |part| sum.quantile(part);
        assert_eq!((at(0.0), at(0.5), at(0.9), at(0.95), at(0.999)), (10, 10, 10, 20, 20));
        assert_eq!(at(1.0) >> 40, 1);
        assert_eq!(Histogram::sum([&Histogram::default()].into_iter()).quantile(0.5), 0);
    }

    #[test]
    fn a_sum_is_recorded_and_merged_without_a_histogram() {
        let mut sum = Sum::default();
        assert_eq!((sum.count(), sum.quantile(0.5)), (0, 0));
        (1..=1000).rev().for_each(|us| sum.record(us * 1000));
        for of in [1, 2] {
            assert_eq!(sum.count(), of * 1000);
            for part in [0.001, 0.5, 0.99, 1.0] {
                let (right, found) = (part * 1e6, sum.quantile(part) as f64);
                assert!((0.0..0.008).contains(&(found / right - 1.0)), "{found} for {right}");
            }
            sum.merge(&sum.clone());
        }
    }
}
