// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a wake-up takes on this machine, learnt from the wake-ups that happen.
//!
//! A kicked thread runs again after 3 to 5 µs if its CPU is running, and after 10 to 20 µs if a
//! hypervisor must first bring back an idle CPU. The budgets of waiters are multiples of the
//! wake-up latency, so it is measured, not assumed.
//!
//! A report of zero means that the kick came before the halt. A report of more than [`LONG_NS`]
//! includes a wait for a processor, by the waiter or by the kicker. Neither says anything about
//! wake-ups, so neither counts. The estimate is the median of the others: each report above it
//! raises it by one [`STEP_NS`] and each report below it lowers it by as much, so it comes to rest
//! where both are equally frequent. Two threads that report at once may lose a step, which only
//! slows the estimate down.
//!
//! Source: Q. Ma, S. Muthukrishnan, M. Sandler, "Frugal Streaming for Estimating Quantiles", 2013
//! (Frugal-1U).

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first guess, and the minimum: what a futex takes between two running CPUs. With less, the
/// queue spends its time handing the lock over.
const LEAST_NS: u32 = 5_000;
/// The maximum. Budgets grow with the estimate, and the tail of the waiting time grows with the
/// budgets: at 12 µs, 16 threads with critical sections of 1 µs waited as long as under
/// `parking_lot` (p99.9); at 20 µs they waited a seventh longer and did no more work.
const MOST_NS: u32 = 16_000;
/// A report of more than this does not describe a wake-up.
const LONG_NS: u64 = 3 * MOST_NS as u64;
/// How far one report moves the estimate. Fewer than a hundred reports, a few milliseconds of
/// contention, take it from one bound to the other; with a much larger step it would follow every
/// single report.
const STEP_NS: u32 = 128;

/// A running median, in a cache line of its own: every wake-up writes it, and every waiter reads
/// it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct WakeUp(AtomicU32);

impl WakeUp {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(LEAST_NS))
    }

    /// The estimated wake-up latency, in nanoseconds.
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        u64::from(self.0.load(Relaxed))
    }

    /// Reports a wake-up that seems to have taken `ns` nanoseconds.
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
