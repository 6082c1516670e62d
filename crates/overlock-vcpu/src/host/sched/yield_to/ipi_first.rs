//! A vCPU that owes an answer to an IPI comes first; for spins without a hint from the guest.
//!
//! Not every long spin waits for a lock: after a TLB shoot-down the sender spins until every
//! receiver has answered, and a receiver that is off CPU cannot. The policy first chooses a ready
//! vCPU that has neither run nor [answered](crate::host::sched::Event::Answered) since the spinner
//! interrupted it, then one that any vCPU interrupted; otherwise the inner policy decides. IPIs
//! older than 50 ms are forgotten.
//!
//! Sources: K. Ishiguro et al., VEE 2021; W. Li, "Semantics-aware vCPU scheduling for
//! oversubscribed KVM", 2025 (not merged).

use super::debts::Debts;
use super::{Chosen, Notice, Policy, Rotation, Ruling, Skipped, Trace, View};
use crate::host::Nanos;
use crate::host::sched::Spin;

/// Boosts the receivers of unanswered IPIs, and asks another policy if there are none.
#[derive(Clone, Debug)]
pub struct IpiFirst<P> {
    inner: P,
    rotation: Rotation,
    debts: Debts,
}

impl<P: Policy> IpiFirst<P> {
    /// Makes the policy for a guest of `vcpus`, with `inner` for spins that no IPI explains.
    pub fn new(vcpus: u32, inner: P) -> Self {
        Self { inner, rotation: Rotation::default(), debts: Debts::new(vcpus) }
    }
}

impl<P: Policy> Policy for IpiFirst<P> {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let Self { rotation, debts, .. } = self;
        for why in [Chosen::OwesIpi, Chosen::IpiPending] {
            let found = rotation.next(view, trace, u32::MAX, |vcpu| {
                let owes = match why {
                    Chosen::OwesIpi => debts.owes(vcpu, spin.vcpu, view.now),
                    _ => debts.pending(vcpu, view.now),
                };
                if owes { Ok(why) } else { Err(Skipped::NoIpi) }
            });
            if let Some((vcpu, why)) = found {
                return Ruling::To(vcpu, why);
            }
        }
        self.inner.on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.debts.notice(now, notice);
        self.inner.notice(now, notice);
    }
}
