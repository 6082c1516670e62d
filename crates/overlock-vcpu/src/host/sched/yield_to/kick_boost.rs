// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kick-boost`: the kick that wakes the head of a lock's queue also hands over the kicker's pCPU.
//!
//! The kicker has just released a lock, and the kicked vCPU can take it at once, provided that it
//! gets a pCPU. If it does not, the lock is free and yet may have no taker. So a kicked vCPU that
//! would have to queue runs in the kicker's place. The scheduler does the boosting; this policy
//! asks for it, and leaves long spins to another one.
//!
//! Source: W. Li, "KVM: Boost queue head vCPU to mitigate lock waiter preemption", Linux 5.4.

use super::{Notice, Policy, Trace, Verdict, View};
use crate::host::Nanos;
use crate::host::sched::Spin;

/// Boosts kicked vCPUs, and asks another policy about spins.
#[derive(Clone, Debug)]
pub struct KickBoost<P> {
    inner: P,
}

impl<P: Policy> KickBoost<P> {
    /// Makes the policy, with `inner` for long spins.
    #[must_use]
    pub const fn new(inner: P) -> Self {
        Self { inner }
    }
}

impl<P: Policy> Policy for KickBoost<P> {
    fn name(&self) -> &'static str {
        "kick-boost"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        self.inner.on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.inner.notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        true
    }
}
