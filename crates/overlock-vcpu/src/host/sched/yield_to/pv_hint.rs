//! `pv-hint`: believes the guest.
//!
//! The third of the three ideas that came with `skip-spinners`: a paravirtual guest knows which
//! vCPU holds the lock, or at least which gets it next. It does not know for which vCPU the holder
//! waits in turn. After a shoot-down that is a vCPU that has not answered, and the host knows
//! those, because it has carried the interrupts. Together they give the order of all the vCPUs for
//! which the spinner waits:
//!
//! 1. those that owe the spinner itself an answer,
//! 2. those that owe the holder an answer,
//! 3. the holder,
//! 4. the waiters before the spinner.
//!
//! The first of these that waits for a pCPU is the one for which all the others wait, since the
//! lock cannot bypass it: it gets the spinner's pCPU. If it has had too much CPU time to be
//! boosted, the vCPU that lags most gets the pCPU instead: spinning would not help, and the
//! first one can be boosted the sooner. If none of them waits for a pCPU, but the holder, a waiter,
//! or one that owes the spinner an answer is running, the spinner is right to spin, so it stays.
//! (It may be the holder itself, whose pCPU must not go to those that wait for it.) If the list is
//! empty, or contains only vCPUs that sleep or do not exist, the inner policy decides.

use super::debts::Debts;
use super::{Chosen, Missed, Notice, Policy, Ruling, Skipped, Trace, View};
use crate::host::Nanos;
use crate::host::sched::Spin;

/// Boosts a vCPU that the guest names or the holder waits for, and asks another policy if there is
/// none.
#[derive(Clone, Debug)]
pub struct PvHint<P> {
    inner: P,
    debts: Debts,
}

impl<P: Policy> PvHint<P> {
    /// Makes the policy for a guest of `vcpus`, with `inner` for spins without a hint.
    pub fn new(vcpus: u32, inner: P) -> Self {
        Self { inner, debts: Debts::new(vcpus) }
    }
}

impl<P: Policy> Policy for PvHint<P> {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let (now, holder) = (view.now, spin.hint.holder);
        let owed = |asker, why| self.debts.debtors(asker, now).map(move |vcpu| (vcpu, why));
        let own = owed(spin.vcpu, Chosen::OwesIpi);
        let its = holder.into_iter().flat_map(|holder| owed(holder, Chosen::OwesHolder));
        let holder = holder.map(|vcpu| (vcpu, Chosen::LockHolder));
        let waiters = spin.hint.waiters.iter().flatten().map(|&vcpu| (vcpu, Chosen::NextWaiter));
        let mut running = false;
        for (vcpu, why) in own.chain(its).chain(holder).chain(waiters) {
            if view.fit(vcpu, trace) {
                return Ruling::To(vcpu, why);
            }
            match view.unfit(vcpu) {
                Some(Skipped::AheadOfShare) => return Ruling::Plain(Missed::AheadOfShare),
                Some(Skipped::Running) => running = true,
                _ => {}
            }
        }
        if running {
            return Ruling::Stay(Missed::HolderRunning);
        }
        self.inner.on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.debts.notice(now, notice);
        self.inner.notice(now, notice);
    }
}
