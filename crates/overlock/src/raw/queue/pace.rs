//! The pace of the queue locks: how long a waiter spins, how often it looks at the lock,
//! and for how long a queue head can be passed. Any value of these is correct: they decide what
//! waiting costs, and the protocol decides what it means.
//!
//! *Spin, then halt.* A waiter spins for about as long as a halt costs, a few wake-up latencies:
//! longer would waste more than a halt, shorter would pay for halts that a moment more makes
//! needless (A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical Studies of Competitive Spinning
//! for a Shared-Memory Multiprocessor", SOSP 1991). No waiter yields: a yield to a stranger that
//! computes costs a slice, and a halt lets fewer threads contend for the processors and the lock.
//!
//! *Learn.* A thread whose spins were all in vain lately, because the holders of its locks are off
//! their processors, spins for a moment only, until a spin brings it a lock. (glibc's adaptive
//! mutexes and Linux's ask the same of the past, and of the holder.)
//!
//! *Look ever more rarely.* Each look takes the lock's cache line away from a holder that is about
//! to write it. So a newcomer pauses for twice as long after each look: it soon finds a lock that
//! is held for a moment, and leaves a holder alone that takes the lock again and again. The queue
//! head looks at each pause: it is alone, and next.
//!
//! `docs/hybrid.md` has the measurements.

use crate::platform::{Costs, Platform};
use crate::spin::Spin;

/// A head in strict order spins for this part of the time of others, less than the halt that
/// follows: no other CPU can use the lock meanwhile, and the holder may need the processor.
const STRICT_PART: u64 = 5;
/// A newcomer that has not slept yet spins for so many times as long as other waiters.
const AWAKE_TIMES: u64 = 2;
/// So many spins in a row can be in vain by chance; each that follows halves the next one.
const VAIN_BY_CHANCE: u32 = 3;
/// So many times. The rest is what a hand-over between two running threads takes.
const HALVINGS: u32 = 5;
/// The longest pause of a newcomer, in readings of the clock.
const LONGEST_PAUSE: u32 = 8;
/// How often a waiter doubles the time after which it looks whether the lock is
/// [reserved](Costs::reserved_ns) in vain: until a wake-up an hour is left of it.
const DOUBLINGS: u32 = 20;

/// The time that a waiter has left to spin.
pub(super) struct Pace {
    spin: Spin,
    budget_ns: u64,
    /// How many pauses come before the next look, and at most.
    pauses: u32,
    most_pauses: u32,
}

impl Pace {
    /// Of a waiter outside the queue, which has slept or not, and has spun so often `in_vain`.
    pub(super) fn of_newcomer(costs: Costs, has_slept: bool, in_vain: u32) -> Self {
        let times = if has_slept { 1 } else { AWAKE_TIMES };
        let most_pauses = costs.pauses_per_look.saturating_mul(LONGEST_PAUSE).max(1);
        let halvings = in_vain.saturating_sub(VAIN_BY_CHANCE).min(HALVINGS);
        Self { most_pauses, ..Self::new(costs.spin_ns().saturating_mul(times) >> halvings) }
    }

    /// Of a queue head, which can be passed or not.
    pub(super) fn of_head(costs: Costs, can_be_passed: bool) -> Self {
        let part = if can_be_passed { 1 } else { STRICT_PART };
        Self::new(costs.spin_ns() / part)
    }

    /// Of a waiter behind others, which halts as soon as it has read the clock once. Longer would
    /// help if every waiter had a processor; elsewhere it burns time that the holder needs.
    pub(super) fn behind() -> Self {
        Self::new(0)
    }

    fn new(budget_ns: u64) -> Self {
        Self { spin: Spin::new(budget_ns), budget_ns, pauses: 1, most_pauses: 1 }
    }

    /// Waits until it is time for another look. Returns false if it is time to halt instead.
    #[inline]
    pub(super) fn goes_on<P: Platform>(&mut self) -> bool {
        let pauses = self.pauses;
        self.pauses = pauses.saturating_mul(2).min(self.most_pauses);
        self.spin.pause_times::<P>(pauses)
    }

    /// Whether it has waited at all.
    pub(super) fn has_begun(&self) -> bool {
        self.pauses > 1
    }

    /// Whether the last wait read the clock, so that a decision about time is due.
    pub(super) fn has_read_clock(&self) -> bool {
        self.spin.has_read_clock()
    }

    /// Whether half of the time is over, so that a halt is near.
    pub(super) fn is_half_spent(&self) -> bool {
        self.spin.left_ns() <= self.budget_ns / 2
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
            let newcomers = [false, true].map(|slept| Pace::of_newcomer(costs, slept, 0));
            let heads = [false, true].map(|passed| Pace::of_head(costs, passed));
            [newcomers, heads].map(|paces| paces.map(|pace| pace.budget_ns))
        };
        assert_eq!(paces(slow), paces(COSTS).map(|two| two.map(|ns| 4 * ns)));
        assert_eq!(paces(COSTS.with_spins(false)), [[0; 2]; 2]);
        let [[awake, slept], [strict, passed]] = paces(COSTS);
        assert!(strict < COSTS.wake_ns && COSTS.wake_ns < slept && slept < awake);
        assert_eq!(passed, slept);
    }

    #[test]
    fn stealing_ends_with_the_tenure_and_a_reservation_long_after_that() {
        assert!(COSTS.tenure_ns() > COSTS.spin_ns());
        assert!(looks_after_ns(COSTS, 0) > 10 * COSTS.tenure_ns());
        let halts: [u64; 4] = [1, 2, DOUBLINGS + 1, u32::MAX].map(|n| looks_after_ns(COSTS, n));
        assert!(halts.is_sorted() && halts[2] == halts[3] && halts[3] < 2 * 3_600_000_000_000);
    }
}
