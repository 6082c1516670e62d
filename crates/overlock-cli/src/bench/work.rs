// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that takes a known time and touches no memory.
//!
//! A critical section of 1 µs must cost 1 µs of CPU, however often its thread is preempted
//! in it: a deadline on the clock would let preempted time count as work. So it is a chain of
//! dependent shifts and exclusive ors, calibrated at the start and checked again at the end.

use crate::clock::Clock;
use std::hint::black_box;

/// How far a later calibration may be off before the lengths of sections can't be believed.
pub(crate) const DRIFT_LIMIT: f64 = 0.05;

/// Spends `iterations` links of the chain.
#[inline]
pub(crate) fn spend(iterations: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// The measured speed of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Links of the chain in a nanosecond.
    pub(crate) per_ns: f64,
}

impl Work {
    /// Measures the chain for about 20 ms; the fastest of many tries is the one not disturbed.
    pub(crate) fn calibrate(clock: &Clock) -> Self {
        const LINKS: u64 = 40_000;
        let fastest = (0..200)
            .map(|_| {
                let start = clock.now();
                spend(LINKS);
                clock.now() - start
            })
            .min()
            .unwrap_or(1);
        Work { per_ns: LINKS as f64 / clock.to_ns(fastest.max(1)) }
    }

    /// How many links take `nanos`.
    pub(crate) fn links(self, nanos: u64) -> u64 {
        (nanos as f64 * self.per_ns).round() as u64
    }

    /// The relative difference between two calibrations.
    pub(crate) fn drift(self, other: Self) -> f64 {
        (self.per_ns / other.per_ns - 1.0).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the links take twice the time (the fastest of many tries, so load can't fail it).
    #[test]
    fn time_grows_with_links() {
        let clock = Clock::calibrate();
        let fastest = |links| {
            let time = || {
                let start = clock.now();
                spend(links);
                clock.now() - start
            };
            clock.to_ns((0..500).map(|_| time()).min().unwrap())
        };
        let ratio = fastest(20_000) / fastest(10_000);
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn links_scale_with_time() {
        let work = Work { per_ns: 0.5 };
        assert_eq!((work.links(0), work.links(1000)), (0, 500));
        assert!((work.drift(Work { per_ns: 0.4 }) - 0.25).abs() < 1e-9);
    }
}
