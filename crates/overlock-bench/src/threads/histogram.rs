// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram that one thread fills and another can read at any moment.
//!
//! Each power of two is cut into 32 equal buckets, so a value is known to within 3.1 %, from 0 to
//! `u64::MAX`, in 7.6 KiB. Recording is a shift and a plain increment: there is one writer, so a
//! relaxed load and store suffice. The reader needs no hand-shake, because it must be able to read
//! the histogram of a thread that is stuck in a lock for ever.
//!
//! That rules out the crate `hdrhistogram`, whose recorders have to answer the reader. Records of
//! worlds, which are read after the run, use it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;
/// The number of buckets that [`counts`] merges into one.
const COARSE: usize = SUB / 4;

/// Counts of values, by size.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU32; BUCKETS],
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Histogram { counts: [const { AtomicU32::new(0) }; BUCKETS] }
    }

    /// Counts one value. Only one thread may call it.
    #[inline]
    pub(crate) fn record(&self, value: u64) {
        let count = &self.counts[bucket(value)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Returns the `quantile` (0 to 1) of all values in `parts` together; 0 if there are none.
///
/// It is the middle of the bucket in which the quantile falls.
pub(crate) fn quantile<'a>(parts: impl Iterator<Item = &'a Histogram>, quantile: f64) -> u64 {
    let mut counts = vec![0_u64; BUCKETS];
    for part in parts {
        for (sum, count) in counts.iter_mut().zip(&part.counts) {
            *sum += u64::from(count.load(Relaxed));
        }
    }
    let total: u64 = counts.iter().sum();
    let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    for (index, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= rank {
            return middle(index);
        }
    }
    0
}

/// Counts all values of `parts` together: each entry counts those that are this large or less, and
/// larger than the entry before. Each power of two has four entries; those without values are left
/// out.
pub(crate) fn counts<'a>(
    parts: impl Iterator<Item = &'a Histogram>,
) -> impl Iterator<Item = (u64, u64)> {
    let mut sums = vec![0_u64; BUCKETS / COARSE];
    for (index, count) in parts.flat_map(|part| part.counts.iter().enumerate()) {
        sums[index / COARSE] += u64::from(count.load(Relaxed));
    }
    let ends = (1..).map(|end| low(end * COARSE).map_or(u64::MAX, |next| next - 1));
    ends.zip(sums).filter(|(_, count)| *count > 0)
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

/// Returns the least value of a bucket; nothing beyond the last one.
fn low(index: usize) -> Option<u64> {
    let group = index / SUB;
    let value = match group {
        0 | 1 => index as u64,
        _ => ((index % SUB + SUB) as u64) << (group - 1),
    };
    (index < BUCKETS).then_some(value)
}

fn middle(index: usize) -> u64 {
    let shift = (index / SUB).saturating_sub(1);
    low(index).map_or(u64::MAX, |low| low + (1 << shift) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_to_three_percent() {
        for value in (0..64).flat_map(|bit| {
            let base = 1_u64 << bit;
            [base - 1, base, base + base / 3, base + (base - 1)]
        }) {
            let found = middle(bucket(value));
            assert!(found.abs_diff(value) <= value / 32, "{value} became {found}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn buckets_never_go_backwards() {
        let mut last = 0;
        for value in 0..100_000 {
            let now = bucket(value);
            assert!(now == last || now == last + 1, "{value}");
            last = now;
        }
    }

    #[test]
    fn counts_lose_no_value_and_say_how_large_it_was_at_most() {
        let (a, b) = (Histogram::new(), Histogram::new());
        let values = [0, 1, 31, 100, 110, 111, 112, 5_000_000, u64::MAX];
        values.iter().for_each(|value| a.record(*value));
        b.record(112);
        let told: Vec<_> = counts([&a, &b].into_iter()).collect();
        assert!(told.is_sorted(), "{told:?}");
        for value in values {
            let within = values.into_iter().chain([112]).filter(|other| *other <= value).count();
            let sum = |upto: &dyn Fn(u64) -> bool| {
                told.iter().filter(|(end, _)| upto(*end)).map(|(_, n)| n).sum::<u64>()
            };
            let above = told.iter().map(|(end, _)| *end).find(|end| *end >= value).unwrap();
            assert!(sum(&|end| end <= above) >= within as u64, "{value}: {told:?}");
        }
        assert!(told.contains(&(111, 3)) && told.contains(&(127, 2)), "{told:?}");
    }

    #[test]
    fn quantiles_of_two_threads_together() {
        let (a, b) = (Histogram::new(), Histogram::new());
        (1..=900).for_each(|_| a.record(10));
        (1..=99).for_each(|_| b.record(20));
        b.record(1 << 40);
        let at = |q| quantile([&a, &b].into_iter(), q);
        assert_eq!((at(0.5), at(0.9), at(0.95), at(0.999)), (10, 10, 20, 20));
        assert_eq!(at(1.0) >> 40, 1);
        assert_eq!(quantile([&Histogram::new()].into_iter(), 0.5), 0);
    }
}
