//! Waiting times: a log-linear histogram that allocates nothing.
//!
//! Each power of two is cut into 16 equal buckets, so a value is known to within 6.3 %.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const SUB_BITS: u32 = 4;
const SUB: usize = 1 << SUB_BITS;
/// Up to 2^40 ns, 18 minutes.
const BUCKETS: usize = (40 - SUB_BITS as usize + 1) * SUB;

/// Counts of waits by their length; one CPU writes.
#[derive(Debug)]
pub(super) struct Waits {
    counts: [AtomicU32; BUCKETS],
    longest: AtomicU64,
}

impl Waits {
    pub(super) const fn new() -> Self {
        Self { counts: [const { AtomicU32::new(0) }; BUCKETS], longest: AtomicU64::new(0) }
    }

    pub(super) fn clear(&self) {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
        self.longest.store(0, Relaxed);
    }

    #[inline]
    pub(super) fn note(&self, ns: u64) {
        let count = &self.counts[bucket(ns)];
        count.store(count.load(Relaxed) + 1, Relaxed);
        if ns > self.longest.load(Relaxed) {
            self.longest.store(ns, Relaxed);
        }
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Relaxed)
    }

    /// The value that `share` (in thousandths) of all in `parts` do not exceed.
    pub(super) fn quantile<'a>(
        parts: impl Iterator<Item = &'a Self> + Clone,
        thousandths: u64,
    ) -> u64 {
        let count = |at: usize| -> u64 {
            parts.clone().map(|part| u64::from(part.counts[at].load(Relaxed))).sum()
        };
        let total: u64 = (0..BUCKETS).map(count).sum();
        let rank = (total * thousandths).div_ceil(1000);
        let mut seen = 0;
        (0..BUCKETS)
            .find(|&at| {
                seen += count(at);
                seen >= rank
            })
            .map_or(0, middle)
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    ((shift as usize) * SUB + (ns >> shift) as usize).min(BUCKETS - 1)
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
    fn every_value_is_known_to_six_percent() {
        for bit in 0..39 {
            let base = 1_u64 << bit;
            for value in [base, base + base / 3, base + (base - 1)] {
                let found = middle(bucket(value));
                assert!(found.abs_diff(value) <= value / 16, "{value} became {found}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_two_cpus_together() {
        static PARTS: [Waits; 2] = [const { Waits::new() }; 2];
        (0..900).for_each(|_| PARTS[0].note(10));
        (0..100).for_each(|_| PARTS[1].note(20));
        let quantile = |thousandths| Waits::quantile(PARTS.iter(), thousandths);
        assert_eq!([500, 900, 950, 1000].map(quantile), [10, 10, 20, 20]);
        assert_eq!(PARTS[1].longest(), 20);
    }
}
