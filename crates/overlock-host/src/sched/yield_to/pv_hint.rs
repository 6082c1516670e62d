// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pv-hint`: believes the guest.
//!
//! The third of the three ideas that came with `skip-spinners`: a paravirtual guest knows who holds
//! the lock, or at least who gets it next. The first of these that waits for a pCPU is the one that
//! everybody else waits for, since the lock cannot pass it by: it gets the spinner's. If it has had
//! too much CPU time to be boosted, whoever lags most gets it instead: spinning would help nobody,
//! and the other may be boosted the sooner. If none of those named waits for a pCPU but one of them
//! runs, the spinner is right to spin: it stays. A guest that names nobody, or only vCPUs that
//! sleep or do not exist, gets the inner policy.

use super::{Chosen, Missed, Notice, Policy, Skipped, Trace, Verdict, View};
use crate::Nanos;
use crate::sched::Spin;

/// Boosts whom the guest names, and asks another policy where it names nobody.
#[derive(Clone, Debug)]
pub struct PvHint<P> {
    inner: P,
}

impl<P: Policy> PvHint<P> {
    /// Makes the policy, with `inner` for spins without a hint.
    #[must_use]
    pub const fn new(inner: P) -> Self {
        Self { inner }
    }
}

impl<P: Policy> Policy for PvHint<P> {
    fn name(&self) -> &'static str {
        "pv-hint"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        let holder = spin.hint.holder.map(|vcpu| (vcpu, Chosen::LockHolder));
        let waiters = spin.hint.waiters.iter().flatten().map(|&vcpu| (vcpu, Chosen::NextWaiter));
        let mut running = false;
        for (vcpu, why) in holder.into_iter().chain(waiters) {
            if view.fit(vcpu, trace) {
                return Verdict::To(vcpu, why);
            }
            match view.unfit(vcpu) {
                Some(Skipped::AheadOfShare) => return Verdict::Plain(Missed::AheadOfShare),
                Some(Skipped::Running) => running = true,
                _ => {}
            }
        }
        if running {
            return Verdict::Stay(Missed::HolderRunning);
        }
        self.inner.on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.inner.notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        self.inner.boosts_kicked()
    }
}
