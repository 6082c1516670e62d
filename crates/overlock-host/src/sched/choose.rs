// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choosing among those that wait: by virtual time, and who may be boosted past it.

use super::vcpu::{VirtualTime, WEIGHT_DEFAULT};
use super::yield_to::{Policy, Skipped};
use super::{Scheduler, Slot, Standing};
use crate::{Nanos, Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// Who should have `pcpu` next, among those that wait.
    pub(super) fn pick(&self, pcpu: Pcpu) -> Option<Vcpu> {
        let slot = &self.slots[pcpu.index()];
        if let Some(next) = slot.next.filter(|&next| self.is_preempted(next)) {
            return Some(next);
        }
        let most = self.slots.iter().filter_map(|slot| slot.queue.first()).min();
        match (slot.queue.first(), most) {
            (Some((here, local)), Some((there, remote))) => {
                let worth = here > there.plus(standard(self.config.migrate_lag));
                Some(if worth { remote } else { local })
            }
            (_, most) => most.map(|(_, remote)| remote),
        }
    }

    /// The virtual time of the vCPU that lags most of those that wait.
    pub(super) fn least(&self) -> Option<VirtualTime> {
        self.slots.iter().filter_map(|slot| slot.queue.first()).map(|(time, _)| time).min()
    }

    /// The virtual time of the vCPU that lags most of those that run on a slot that `counts`.
    pub(super) fn least_running(&self, counts: impl Fn(&Slot) -> bool) -> Option<VirtualTime> {
        let owners = self.slots.iter().filter(|slot| counts(slot)).filter_map(|slot| slot.owner);
        owners.map(|owner| self.vcpus[owner.index()].accounted(self.now).time).min()
    }

    /// An idle pCPU, `home` if that is one.
    pub(super) fn idle(&self, home: Pcpu) -> Option<Pcpu> {
        let idle = |pcpu: &Pcpu| self.slots[pcpu.index()].owner.is_none();
        Some(home).filter(idle).or_else(|| (0..self.config.pcpus).map(Pcpu).find(idle))
    }

    /// The virtual time beyond which nobody is boosted: `yield_lead` ahead of the one that lags
    /// most of all that wait or run.
    ///
    /// The running ones count too, or they would fall back a little each time they yield. But one
    /// that has long had a pCPU to itself and lags all the same has more weight than a pCPU can
    /// honour, and must not bar the others for ever. Twice the lead is time enough to catch up.
    pub(super) fn limit(&self) -> Option<VirtualTime> {
        let lead = self.config.yield_lead;
        let recent = |slot: &Slot| self.now - slot.entered <= lead + lead;
        let least = [self.least(), self.least_running(recent)].into_iter().flatten().min()?;
        Some(least.plus(standard(lead)))
    }

    /// Why `vcpu` cannot have the pCPU of `giver`, if it cannot, for a [limit](Self::limit).
    pub(super) fn unfit(
        &self,
        vcpu: Vcpu,
        giver: Vcpu,
        limit: Option<VirtualTime>,
    ) -> Option<Skipped> {
        if vcpu == giver {
            return Some(Skipped::Itself);
        }
        let Some(record) = self.vcpus.get(vcpu.index()) else { return Some(Skipped::Unknown) };
        match record.standing {
            Standing::Halted => Some(Skipped::Halted),
            Standing::Running(_) => Some(Skipped::Running),
            Standing::Stopped => Some(Skipped::Stopped),
            Standing::Queued(_) => {
                limit.is_some_and(|limit| record.time > limit).then_some(Skipped::AheadOfShare)
            }
        }
    }
}

/// The virtual time that `span` is worth to a vCPU of the default weight.
pub(super) fn standard(span: Nanos) -> VirtualTime {
    VirtualTime::of(span, WEIGHT_DEFAULT)
}
