// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pv-hint`: believes the guest.
//!
//! The third of the three ideas that came with `skip-spinners`: a paravirtual guest knows who holds
//! the lock, or at least who gets it next. If it names the holder and that one is ready, it gets
//! the pCPU; otherwise the first of the named waiters that is ready, since the lock cannot pass it
//! by. If none of those named is ready, one of them may be running and the spinner is right to
//! spin: it stays. A guest that names nobody, or only vCPUs that do not exist, gets the inner
//! policy.

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
            running |= view.unfit(vcpu) == Some(Skipped::Running);
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
