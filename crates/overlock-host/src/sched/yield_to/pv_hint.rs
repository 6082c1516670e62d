// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pv-hint`: believes the guest.
//!
//! The third of the three ideas that came with `skip-spinners`: a paravirtual guest knows who holds
//! the lock, or at least who gets it next. What it does not know is for whom the holder waits in
//! its turn: after a shoot-down that is a vCPU which has not answered, and the host, which has
//! carried the interrupts, knows those. Together they make the line of all that the spinner waits
//! for:
//!
//! 1. those that owe the spinner itself an answer,
//! 2. those that owe the holder one,
//! 3. the holder,
//! 4. the waiters before the spinner.
//!
//! The first of these that waits for a pCPU is the one that everybody else waits for, since the
//! lock cannot pass it by: it gets the spinner's. If it has had too much CPU time to be boosted,
//! whoever lags most gets it instead: spinning would help nobody, and the other may be boosted the
//! sooner. If none of the line waits for a pCPU but the holder, a waiter, or one that owes the
//! spinner an answer runs, the spinner is right to spin: it stays. (It may be the holder itself,
//! whose pCPU must not go to those that wait for it.) Where there is no line, or it consists of
//! vCPUs that sleep or do not exist, the inner policy decides.

use super::debts::Debts;
use super::{Chosen, Missed, Notice, Policy, Skipped, Trace, Verdict, View};
use crate::Nanos;
use crate::sched::Spin;

/// Boosts whom the guest names or the holder waits for, and asks another policy where there is
/// nobody.
#[derive(Clone, Debug)]
pub struct PvHint<P> {
    inner: P,
    debts: Debts,
}

impl<P: Policy> PvHint<P> {
    /// Makes the policy for a guest of `vcpus`, with `inner` for spins without a hint.
    #[must_use]
    pub fn new(vcpus: u32, inner: P) -> Self {
        Self { inner, debts: Debts::new(vcpus) }
    }
}

impl<P: Policy> Policy for PvHint<P> {
    fn name(&self) -> &'static str {
        "pv-hint"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        let (now, holder) = (view.now(), spin.hint.holder);
        let owed = |asker, why| self.debts.debtors(asker, now).map(move |vcpu| (vcpu, why));
        let own = owed(spin.vcpu, Chosen::OwesIpi);
        let its = holder.into_iter().flat_map(|holder| owed(holder, Chosen::OwesHolder));
        let holder = holder.map(|vcpu| (vcpu, Chosen::LockHolder));
        let waiters = spin.hint.waiters.iter().flatten().map(|&vcpu| (vcpu, Chosen::NextWaiter));
        let mut running = false;
        for (vcpu, why) in own.chain(its).chain(holder).chain(waiters) {
            if view.fit(vcpu, trace) {
                return Verdict::To(vcpu, why);
            }
            match view.unfit(vcpu) {
                Some(Skipped::AheadOfShare | Skipped::NotAllowedHere) => {
                    return Verdict::Plain(Missed::AheadOfShare);
                }
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
        self.debts.notice(now, notice);
        self.inner.notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        self.inner.boosts_kicked()
    }
}
