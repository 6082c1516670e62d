// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram that one vCPU fills and the host reads afterwards.
//!
//! Each power of two is cut into 32 equal buckets, so a value is known to within 3.1 %, from 0 to
//! `u64::MAX`. Recording is a shift and a plain increment: there is one writer.
//!
//! `overlock bench` has another one like it, as it also runs where this crate does not build, and
//! no crate of ours lies below both. The crate `hdrhistogram` serves neither: it records through
//! `&mut self`, or through a recorder that allocates and has to shake hands with the reader. A
//! guest can do neither system calls nor allocations, and a guest that is ended by force, or a
//! thread that is stuck in a lock, must still be readable.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buckets of a power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of values, by size.
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
    /// Counts one value. Only one thread may do so.
    #[inline]
    pub fn record(&self, value: u64) {
        let count = &self.counts[bucket(value)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The `quantiles` (0 to 1) of all values in `parts` together, each the middle of its bucket; 0
    /// if there are no values.
    #[must_use]
    pub fn quantiles<const N: usize>(parts: &[&Self], quantiles: [f64; N]) -> [u64; N] {
        let count = |at: usize| parts.iter().map(|p| u64::from(p.counts[at].load(Relaxed))).sum();
        let counts: Vec<u64> = (0..BUCKETS).map(count).collect();
        let total: u64 = counts.iter().sum();
        quantiles.map(|quantile| {
            let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            found.map_or(0, middle)
        })
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    // The top bit is always set after the shift, so it steps over to the next group by itself.
    (shift as usize) * SUB + (value >> shift) as usize
}

fn middle(index: usize) -> u64 {
    let group = index / SUB;
    if group < 2 {
        return index as u64;
    }
    let shift = group - 1;
    (((index % SUB + SUB) as u64) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_to_three_percent() {
        for bit in 0..64 {
            let base = 1_u64 << bit;
            for value in [base - 1, base, base + base / 3, base + (base - 1)] {
                let found = middle(bucket(value));
                assert!(found.abs_diff(value) <= value / 32, "{value} became {found}");
            }
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_of_two_vcpus_together() {
        let (a, b) = (Histogram::default(), Histogram::default());
        (1..=900).for_each(|_| a.record(10));
        (1..=100).for_each(|_| b.record(20));
        assert_eq!(Histogram::quantiles(&[&a, &b], [0.5, 0.9, 0.95, 1.0]), [10, 10, 20, 20]);
        assert_eq!(Histogram::quantiles(&[], [0.5]), [0]);
    }
}
