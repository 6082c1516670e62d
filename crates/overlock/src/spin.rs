// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spinning for a while: budgets in time.
//!
//! A budget is time on the platform's clock and not a number of iterations, because a PAUSE lasts
//! 10 cycles on one processor and 140 on another, and because a spinner that was preempted has spun
//! long enough. The clock is asked only once in [`Platform::PAUSES_PER_LOOK`] pauses.

use crate::platform::Platform;

/// A spin loop with a budget.
#[derive(Debug)]
pub(crate) struct Spin {
    budget_ns: u64,
    until_ns: Option<u64>,
    pauses: u32,
}

impl Spin {
    /// A loop that may go on for `budget_ns` nanoseconds from its first look at the clock.
    #[inline]
    pub(crate) const fn new(budget_ns: u64) -> Self {
        Self { budget_ns, until_ns: None, pauses: 0 }
    }

    /// Pauses once. Returns false when the budget is spent; never on a platform that does not wait.
    #[inline]
    pub(crate) fn again<P: Platform>(&mut self) -> bool {
        self.pause::<P>(1)
    }

    /// Pauses `n` times. Returns false when the budget is spent; never on a platform that does not
    /// wait.
    #[inline]
    pub(crate) fn pause<P: Platform>(&mut self, n: u32) -> bool {
        for _ in 0..n {
            P::relax();
        }
        if !P::WAITS || !P::waits() {
            return true;
        }
        self.pauses += n;
        if self.pauses < P::PAUSES_PER_LOOK {
            return true;
        }
        self.pauses = 0;
        let now = P::now_ns();
        now < *self.until_ns.get_or_insert(now + self.budget_ns)
    }
}
