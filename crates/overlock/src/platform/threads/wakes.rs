// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a wake-up takes on this machine, learnt from those that happen.
//!
//! A thread that is kicked is back after 3 to 5 µs where its CPU runs, and after 10 to 20 where an
//! idle CPU has to be called back from a hypervisor first. Every budget of the locks is a number of
//! wake-ups, so this is measured, not assumed.
//!
//! The estimate goes up by one [`STEP`] with each report above it and down with each below, so it
//! settles where there are as many of one as of the other: at the median. A kick that comes before
//! the halt (no time at all) and a wait for a processor (milliseconds) move it by no more than a
//! step each. Where such are the rule, the bounds keep it sane. Two threads that report at once may
//! lose a step, which only makes it slower.
//!
//! Source: Q. Ma, S. Muthukrishnan, M. Sandler, "Frugal Streaming for Estimating Quantiles", 2013
//! (Frugal-1U).

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first guess, and the least: what a futex takes between two CPUs that run. Reports of less
/// are mostly of kicks that came before the halt.
const LEAST_NS: u32 = 5_000;
/// What takes longer is a wait for a processor.
const MOST_NS: u32 = 16_000;
/// How far one report moves the estimate: some hundred take it from one bound to the other.
const STEP_NS: u32 = 32;

/// A running median. In a cache line of its own: it is written at each wake-up, and read whenever
/// somebody waits.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct WakeUp(AtomicU32);

impl WakeUp {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(LEAST_NS))
    }

    /// About how long a wake-up takes, in nanoseconds.
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        u64::from(self.0.load(Relaxed))
    }

    /// A wake-up took so many nanoseconds.
    pub(super) fn took(&self, ns: u64) {
        let now = self.0.load(Relaxed);
        let next = if ns > u64::from(now) { now + STEP_NS } else { now - STEP_NS };
        let next = next.clamp(LEAST_NS, MOST_NS);
        if next != now {
            self.0.store(next, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: impl IntoIterator<Item = u64>) -> u64 {
        let wake_up = WakeUp::new();
        reports.into_iter().for_each(|ns| wake_up.took(ns));
        wake_up.ns()
    }

    #[test]
    fn it_settles_at_the_median_whatever_the_tails_are() {
        let reports = [12_000, 4_000_000, 11_000, 0, 12_000, 13_000, 4_000_000, 0, 12_000];
        let settled = after(reports.into_iter().cycle().take(9_000));
        assert!((11_500..12_500).contains(&settled), "{settled}");
    }

    #[test]
    fn it_keeps_to_its_bounds() {
        assert_eq!(after([]), u64::from(LEAST_NS));
        assert_eq!(after([0; 10_000]), u64::from(LEAST_NS));
        assert_eq!(after([u64::MAX; 10_000]), u64::from(MOST_NS));
    }

    #[test]
    fn one_report_says_little() {
        assert_eq!(after([4_000_000]), u64::from(LEAST_NS + STEP_NS));
    }
}
