// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ipi-first`: whoever owes an answer to an IPI comes first.
//!
//! Not every long spin waits for a lock: after a TLB shootdown the sender spins until every
//! receiver has answered, and one that is off CPU cannot. A ready vCPU that has neither run nor
//! [answered](crate::sched::Event::Answered) since the spinner interrupted it is chosen first, then
//! one that anybody interrupted, then the inner policy decides. An IPI older than 50 ms is
//! forgotten.
//!
//! Sources: K. Ishiguro et al., VEE 2021; W. Li, "Semantics-aware vCPU scheduling for
//! oversubscribed KVM", 2025 (not merged).

use alloc::vec;
use alloc::vec::Vec;

use super::{Chosen, Notice, Policy, Rotation, Skipped, Trace, Verdict, View};
use crate::sched::Spin;
use crate::{Nanos, Vcpu};

/// How long an unanswered IPI counts. 50 ms, as in the 2025 series: longer than any vCPU should
/// wait for its slice, short enough to forget IPIs that need no answer.
const WINDOW: Nanos = Nanos::from_millis(50);

/// Boosts the receivers of unanswered IPIs, and asks another policy where there are none.
#[derive(Clone, Debug)]
pub struct IpiFirst<P> {
    inner: P,
    rotation: Rotation,
    /// For each vCPU: the last IPI it got since it last ran.
    owed: Vec<Option<(Vcpu, Nanos)>>,
}

impl<P: Policy> IpiFirst<P> {
    /// Makes the policy for a guest of `vcpus`, with `inner` for spins that owe to no IPI.
    #[must_use]
    pub fn new(vcpus: u32, inner: P) -> Self {
        Self { inner, rotation: Rotation::default(), owed: vec![None; vcpus as usize] }
    }

    /// The sender of a recent IPI that `vcpu` has not answered.
    fn sender(&self, vcpu: Vcpu, now: Nanos) -> Option<Vcpu> {
        let (from, at) = (*self.owed.get(vcpu.index())?)?;
        (now - at <= WINDOW).then_some(from)
    }
}

impl<P: Policy> Policy for IpiFirst<P> {
    fn name(&self) -> &'static str {
        "ipi-first"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        for why in [Chosen::OwesIpi, Chosen::IpiPending] {
            let mut rotation = self.rotation;
            let found =
                rotation.next(view, trace, u32::MAX, |vcpu| match self.sender(vcpu, view.now()) {
                    Some(from) if from == spin.vcpu || why == Chosen::IpiPending => Ok(why),
                    _ => Err(Skipped::NoIpi),
                });
            self.rotation = rotation;
            if let Some((vcpu, why)) = found {
                return Verdict::To(vcpu, why);
            }
        }
        self.inner.on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        match notice {
            Notice::Ipi { from, to } => {
                if let Some(owed) = self.owed.get_mut(to.index()) {
                    *owed = Some((from, now));
                }
            }
            Notice::Runs(vcpu) | Notice::Answered(vcpu) => {
                if let Some(owed) = self.owed.get_mut(vcpu.index()) {
                    *owed = None;
                }
            }
            Notice::Worked(_) => {}
        }
        self.inner.notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        self.inner.boosts_kicked()
    }
}
