//! Spinning with a budget of time.
//!
//! A budget is time on the platform's clock and not a number of iterations, because a PAUSE lasts
//! 10 cycles on one processor and 140 on another, and because a spinner that was preempted has spun
//! long enough. The loop reads the clock only once in every
//! [`Costs::pauses_per_look`](crate::platform::Costs) pauses.

use crate::platform::Platform;

/// A spin loop with a budget.
#[derive(Debug)]
pub(crate) struct Spin {
    left_ns: u64,
    since_ns: Option<u64>,
    pauses: u32,
    /// [`Costs::pauses_per_look`](crate::platform::Costs), once it has been asked for: a platform
    /// may have to look the costs of a thread up. 0 before.
    per_look: u32,
}

impl Spin {
    /// A loop that can run for `budget_ns` nanoseconds from its first reading of the clock.
    #[inline]
    pub(crate) const fn new(budget_ns: u64) -> Self {
        Self { left_ns: budget_ns, since_ns: None, pauses: 0, per_look: 0 }
    }

    /// Pauses once. Returns false when the budget is spent, which never happens on a platform that
    /// does not wait.
    #[inline]
    pub(crate) fn pause<P: Platform>(&mut self) -> bool {
        self.pause_times::<P>(1)
    }

    /// Pauses `n` times; otherwise like [`pause`](Self::pause).
    #[inline]
    pub(crate) fn pause_times<P: Platform>(&mut self, n: u32) -> bool {
        for _ in 0..n {
            P::relax();
        }
        self.pauses += n;
        if self.per_look == 0 {
            self.per_look = P::costs().pauses_per_look.max(1);
        }
        if self.pauses < self.per_look {
            return true;
        }
        self.pauses = 0;
        if !P::WAITS || !P::waits() {
            return true;
        }
        let now = P::now_ns();
        let spent = now.saturating_sub(*self.since_ns.get_or_insert(now));
        self.since_ns = Some(now);
        self.left_ns = self.left_ns.saturating_sub(spent);
        self.left_ns > 0
    }

    /// What is left of the budget, in nanoseconds.
    #[inline]
    pub(crate) fn left_ns(&self) -> u64 {
        self.left_ns
    }

    /// Whether the last [`pause`](Self::pause) read the clock.
    #[inline]
    pub(crate) fn has_read_clock(&self) -> bool {
        self.pauses == 0
    }
}
