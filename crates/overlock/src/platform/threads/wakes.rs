// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a wake-up takes on this machine, learnt from those that happen.
//!
//! A thread that is kicked is back after 3 to 5 µs where its CPU runs, and after 10 to 20 where an
//! idle CPU has to be called back from a hypervisor first. The budgets of waiters are
//! numbers of wake-ups, so this is measured, not assumed.
//!
//! A report of no time at all is of a kick that came before the halt, and one of more than
//! [`LONG_NS`] of a wait for a processor (or of a kicker that lost its own): they say nothing about
//! wake-ups and do not count. Of the others the estimate is the median: it goes up by one
//! [`STEP_NS`] with each report above it and down with each below, so it comes to rest where there
//! are as many of one as of the other. Two threads that report at once may lose a step, which only
//! makes it slower.
//!
//! Source: Q. Ma, S. Muthukrishnan, M. Sandler, "Frugal Streaming for Estimating Quantiles", 2013
//! (Frugal-1U).

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first guess, and the least: what a futex takes between two CPUs that run. With less, the
/// queue spends its time on changes of hands.
const LEAST_NS: u32 = 5_000;
/// The most. Budgets grow with the estimate, and the tail of the waiting time with the budgets: at
/// 12 µs 16 threads with critical sections of 1 µs waited as long as under `parking_lot` (p99.9),
/// at 20 a seventh longer, and did no more.
const MOST_NS: u32 = 16_000;
/// What takes longer is no wake-up.
const LONG_NS: u64 = 3 * MOST_NS as u64;
/// How far one report moves the estimate. Less than a hundred take it from one bound to the other,
/// a few milliseconds of contention; with much larger steps it would follow each report.
const STEP_NS: u32 = 128;

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

    /// A wake-up took so many nanoseconds, it seems.
    pub(super) fn took(&self, ns: u64) {
        if !(1..=LONG_NS).contains(&ns) {
            return;
        }
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
    fn it_finds_the_median_of_what_can_be_a_wake_up() {
        let wake_ups = [12_000, 11_000, 12_000, 13_000, 12_000, 40_000, 2_000];
        let waits = [4_000_000; 9];
        let early = [0; 5];
        let reports = wake_ups.into_iter().chain(waits).chain(early);
        let median = after(reports.cycle().take(30_000));
        assert!((11_500..12_500).contains(&median), "{median}");
    }

    #[test]
    fn it_keeps_to_its_bounds() {
        assert_eq!(after([]), u64::from(LEAST_NS));
        assert_eq!(after([1; 10_000]), u64::from(LEAST_NS));
        assert_eq!(after([LONG_NS; 10_000]), u64::from(MOST_NS));
    }

    #[test]
    fn one_report_says_little() {
        assert_eq!(after([40_000]), u64::from(LEAST_NS + STEP_NS));
        assert_eq!(after([u64::MAX]), u64::from(LEAST_NS));
    }
}
