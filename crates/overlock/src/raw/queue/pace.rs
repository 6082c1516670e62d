// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pace of the queue locks: how long a waiter spins, how often it looks at the lock and yields,
//! and for how long a queue head can be passed. Any value of these is correct: they decide what
//! waiting costs, and the protocol decides what it means.
//!
//! *Spin, then halt.* A waiter spins for about as long as a halt would cost it, which is a wake-up
//! latency: longer would waste more than a halt, shorter would pay for halts that a moment more
//! makes needless (A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical Studies of Competitive
//! Spinning for a Shared-Memory Multiprocessor", SOSP 1991). A newcomer does not
//! yield: once it sleeps, fewer threads contend for the processors and for the lock. Of each lock,
//! only the queue head yields, because it is the one waiter that must soon be there, and it does
//! not where strangers compute.
//!
//! *Look rarely.* Each look takes the lock's cache line away from a holder that is about to write
//! it. So a newcomer looks once in each reading of the clock. The queue head looks at each pause:
//! it is alone, and next.
//!
//! `docs/hybrid.md` has the measurements.

use super::rent::has;
use crate::counters::{Class, Event};
use crate::platform::{Costs, Platform};
use crate::spin::{Spin, may_yield};

/// A head in strict order spins for this part of the time of others, less than the halt that
/// follows: no other CPU can use the lock meanwhile, and the holder may need the processor.
const STRICT_PART: u64 = 5;
/// A newcomer that finds a queue spins for this part of the time of others, which is a wake-up
/// latency: the lock has a next holder without it, and processors are scarce where CPUs already
/// sleep for the lock.
const BESIDE_QUEUE_PART: u64 = 2;
/// How often a waiter doubles the time after which it looks whether the lock is
/// [reserved](Costs::reserved_ns) in vain: to 256 times 4 ms, so that a long sleep costs nothing.
const DOUBLINGS: u32 = 8;

/// The time that a waiter has left to spin.
pub(super) struct Pace {
    spin: Spin,
    budget_ns: u64,
    pauses: u32,
    yields: bool,
}

impl Pace {
    /// Of a newcomer that has found a queue, or none.
    pub(super) fn of_newcomer(costs: Costs, has_queue: bool) -> Self {
        let part = if has_queue && const { has("the short spin") } { BESIDE_QUEUE_PART } else { 1 };
        let pauses = if const { has("rare looks") } { costs.pauses_per_look.max(1) } else { 1 };
        Self { pauses, ..Self::new(costs.spin_ns() / part) }
    }

    /// Of a queue head, which can be passed or not.
    pub(super) fn of_head(costs: Costs, can_be_passed: bool) -> Self {
        let yields = can_be_passed && const { has("the head's yields") };
        let part = if can_be_passed { 1 } else { STRICT_PART };
        Self { yields, ..Self::new(costs.spin_ns() / part) }
    }

    /// Of a waiter behind others, which halts as soon as it has read the clock once. Longer would
    /// help if every waiter had a processor; elsewhere it burns time that the holder needs.
    pub(super) fn behind() -> Self {
        Self::new(0)
    }

    fn new(budget_ns: u64) -> Self {
        Self { spin: Spin::new(budget_ns), budget_ns, pauses: 1, yields: false }
    }

    /// Waits until it is time for another look. Returns false if it is time to halt instead.
    #[inline]
    pub(super) fn goes_on<P: Platform, C: Class>(&mut self) -> bool {
        let goes_on = self.spin.pause_times::<P>(self.pauses);
        if goes_on && self.yields && self.has_read_clock() && may_yield::<P>() {
            C::count(Event::PvYield);
            self.spin.yield_now::<P>();
        }
        goes_on
    }

    /// Whether the last wait read the clock, so that a decision about time is due.
    pub(super) fn has_read_clock(&self) -> bool {
        self.spin.has_read_clock()
    }

    /// This waiter has slept: its time begins again.
    pub(super) fn begin_again(&mut self) {
        self.spin = Spin::new(self.budget_ns);
    }
}

/// How long a waiter behind others halts before it looks whether the lock is reserved in vain. It
/// has just looked; of its looks, the last `none` found no reservation.
pub(super) fn looks_after_ns(costs: Costs, none: u32) -> u64 {
    costs.reserved_ns.saturating_mul(2_u64.pow(none.saturating_sub(1).min(DOUBLINGS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs::DEFAULT;

    #[test]
    fn budgets_follow_the_wake_up_latency_and_are_zero_for_a_waiter_that_should_not_spin() {
        let slow = COSTS.with_wake_ns(4 * COSTS.wake_ns);
        let paces = |costs| {
            let newcomers = [false, true].map(|queue| Pace::of_newcomer(costs, queue));
            let heads = [false, true].map(|passed| Pace::of_head(costs, passed));
            [newcomers, heads].map(|paces| paces.map(|pace| pace.budget_ns))
        };
        assert_eq!(paces(slow), paces(COSTS).map(|two| two.map(|ns| 4 * ns)));
        assert_eq!(paces(COSTS.with_spins(false)), [[0; 2]; 2]);
        let [[alone, behind_queue], [strict, passed]] = paces(COSTS);
        assert!(strict < behind_queue && behind_queue < alone && strict < COSTS.wake_ns);
        assert!(alone > COSTS.wake_ns && passed == alone);
    }

    #[test]
    fn stealing_ends_with_the_tenure_and_a_reservation_long_after_that() {
        assert!(COSTS.tenure_ns() > COSTS.spin_ns());
        assert!(looks_after_ns(COSTS, 0) > 10 * COSTS.tenure_ns());
        let halts: [u64; 4] = [1, 2, DOUBLINGS + 1, u32::MAX].map(|n| looks_after_ns(COSTS, n));
        assert!(halts.is_sorted() && halts[2] == halts[3] && halts[3] < 2_000_000_000);
    }
}
