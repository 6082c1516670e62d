//! The pace of the locks: how long a waiter spins, how often it looks at the lock, and for how long
//! a queue head can be passed. Any value of these is correct: they decide what waiting costs, and
//! the protocols decide what it means.
//!
//! A budget is time on the platform's clock and not a number of iterations, because a PAUSE lasts
//! 10 cycles on one processor and 140 on another, and because a spinner that was preempted has spun
//! long enough. The loop reads the clock only once in every [`Costs::pauses_per_look`] pauses.
//!
//! *Spin, then halt.* A waiter spins for about as long as a halt costs, a few wake-up latencies:
//! longer would waste more than a halt, shorter would pay for halts that a moment more makes
//! needless (A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical Studies of Competitive Spinning
//! for a Shared-Memory Multiprocessor", SOSP 1991). No waiter yields: a yield to a stranger that
//! computes costs a slice, and a halt lets fewer threads contend for the processors and the lock.
//!
//! *Learn.* A thread whose spins for a queue lock were all in vain lately, because the holders of
//! its locks are off their processors, spins for a moment only, until a spin brings it a lock.
//! (glibc's adaptive mutexes and Linux's ask the same of the past, and of the holder.)
//!
//! *Look ever more rarely.* Each look takes the lock's cache line away from a holder that is about
//! to write it. So a waiter that is one of many pauses for twice as long after each look: it soon
//! finds a lock that is held for a moment, and leaves a holder alone that takes the lock again and
//! again. A queue head looks at each pause: it is alone, and next.
//!
//! `docs/hybrid.md` has the measurements.

use crate::platform::{Costs, Platform};

/// How long a waiter spins that may then halt, in wake-up latencies: what its halt would cost, and
/// the kick that ends it. Any value is correct.
const SPIN_WAKES: u64 = 2;
/// For how many wake-up latencies a queue head can be passed, its *tenure*: a hand-over costs one
/// or two of them, so hand-overs cost a fifth of the time at most. Any value is correct.
const TENURE_WAKES: u64 = 10;
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

impl Costs {
    /// How long a waiter spins before it halts, in nanoseconds.
    pub(crate) const fn spin_ns(self) -> u64 {
        if self.spins { self.wake_ns.saturating_mul(SPIN_WAKES) } else { 0 }
    }

    /// How long a queue head can be passed, in nanoseconds.
    pub(crate) const fn tenure_ns(self) -> u64 {
        self.wake_ns.saturating_mul(TENURE_WAKES)
    }

    /// How long a waiter of an unfair lock waits outside the queue, in nanoseconds.
    pub(crate) const fn outside_ns(self) -> u64 {
        self.wake_ns.saturating_mul(self.outside_wakes as u64)
    }
}

/// A spin loop with a budget.
#[derive(Debug)]
pub(crate) struct Spin {
    budget_ns: u64,
    left_ns: u64,
    since_ns: Option<u64>,
    /// How many pauses come before the next look, and at most.
    pauses: u32,
    most_pauses: u32,
    /// How many pauses were made since the last reading of the clock, and come between two.
    unread: u32,
    per_reading: u32,
}

impl Spin {
    /// A loop that can run for `budget_ns` nanoseconds from its first reading of the clock, and
    /// looks at each pause.
    #[inline]
    pub(crate) fn new(costs: Costs, budget_ns: u64) -> Self {
        Self {
            budget_ns,
            left_ns: budget_ns,
            since_ns: None,
            pauses: 1,
            most_pauses: 1,
            unread: 0,
            per_reading: costs.pauses_per_look.max(1),
        }
    }

    /// The same loop, but it pauses for twice as long after each look, at most so many times.
    pub(crate) fn with_most_pauses(self, most_pauses: u32) -> Self {
        Self { most_pauses, ..self }
    }

    /// Of a waiter outside the queue, which has slept or not, and has spun so often `in_vain`.
    pub(crate) fn of_newcomer(costs: Costs, has_slept: bool, in_vain: u32) -> Self {
        let times = if has_slept { 1 } else { AWAKE_TIMES };
        let halvings = in_vain.saturating_sub(VAIN_BY_CHANCE).min(HALVINGS);
        let most_pauses = costs.pauses_per_look.saturating_mul(LONGEST_PAUSE).max(1);
        let budget_ns = costs.spin_ns().saturating_mul(times) >> halvings;
        Self { most_pauses, ..Self::new(costs, budget_ns) }
    }

    /// Of a queue head, which can be passed or not.
    pub(crate) fn of_head(costs: Costs, can_be_passed: bool) -> Self {
        let part = if can_be_passed { 1 } else { STRICT_PART };
        Self::new(costs, costs.spin_ns() / part)
    }

    /// Of a waiter behind others, which halts as soon as it has read the clock once. Longer would
    /// help if every waiter had a processor; elsewhere it burns time that the holder needs.
    pub(crate) fn behind(costs: Costs) -> Self {
        Self::new(costs, 0)
    }

    /// Waits until it is time for another look. Returns false if it is time to halt instead, which
    /// never happens on a platform that does not wait.
    #[inline]
    pub(crate) fn goes_on<P: Platform>(&mut self) -> bool {
        for _ in 0..self.pauses {
            P::relax();
        }
        self.unread += self.pauses;
        self.pauses = self.pauses.saturating_mul(2).min(self.most_pauses);
        if self.unread < self.per_reading {
            return true;
        }
        self.unread = 0;
        if !P::WAITS || !P::waits() {
            return true;
        }
        let now = P::now_ns();
        let spent = now.saturating_sub(*self.since_ns.get_or_insert(now));
        self.since_ns = Some(now);
        self.left_ns = self.left_ns.saturating_sub(spent);
        self.left_ns > 0
    }

    /// Whether it has waited at all, if it looks ever more rarely.
    pub(crate) fn has_begun(&self) -> bool {
        self.pauses > 1
    }

    /// Whether the last wait read the clock, so that a decision about time is due.
    pub(crate) fn has_read_clock(&self) -> bool {
        self.unread == 0
    }

    /// Whether half of the time is over, so that a halt is near.
    pub(crate) fn is_half_spent(&self) -> bool {
        self.left_ns <= self.budget_ns / 2
    }

    /// This waiter has slept: its time begins again.
    pub(crate) fn begin_again(&mut self) {
        (self.left_ns, self.since_ns, self.pauses, self.unread) = (self.budget_ns, None, 1, 0);
    }
}

/// How long a waiter behind others halts before it looks whether the lock is reserved in vain. It
/// has just looked; of its looks, the last `none` found no reservation.
pub(crate) fn looks_after_ns(costs: Costs, none: u32) -> u64 {
    costs.reserved_ns.saturating_mul(2_u64.pow(none.saturating_sub(1).min(DOUBLINGS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs::DEFAULT;

    #[test]
    fn budgets_follow_the_wake_up_latency_and_are_zero_for_a_waiter_that_should_not_spin() {
        let slow = COSTS.with_wake_ns(4 * COSTS.wake_ns);
        let budgets = |costs| {
            let newcomers = [false, true].map(|slept| Spin::of_newcomer(costs, slept, 0));
            let heads = [false, true].map(|passed| Spin::of_head(costs, passed));
            [newcomers, heads].map(|spins| spins.map(|spin| spin.budget_ns))
        };
        assert_eq!(budgets(slow), budgets(COSTS).map(|two| two.map(|ns| 4 * ns)));
        assert_eq!(budgets(COSTS.with_spins(false)), [[0; 2]; 2]);
        let [[awake, slept], [strict, passed]] = budgets(COSTS);
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
