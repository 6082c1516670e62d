//! Choosing among the waiting vCPUs: by virtual time, or by a boost past it.

use super::Scheduler;
use super::judge::{Judge, standard};
use super::scheduler::Slot;
use super::vcpu::VirtualTime;
use super::yield_to::Policy;
use crate::host::{Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// The vCPU that should have `pcpu` next, of those that wait and may run there.
    pub(super) fn pick(&self, pcpu: Pcpu) -> Option<Vcpu> {
        let slot = &self.slots[pcpu.index()];
        let fits = |&next: &Vcpu| self.is_preempted(next) && self.affinity.allows(next, pcpu);
        if let Some(next) = slot.next.filter(fits) {
            return Some(next);
        }
        match (slot.queue.first(), self.most_lagging(pcpu)) {
            (Some((here, local)), Some((there, remote))) => {
                let worth = here > there.plus(standard(self.config.migrate_lag));
                Some(if worth { remote } else { local })
            }
            (_, most) => most.map(|(_, remote)| remote),
        }
    }

    /// The vCPU that lags most, of those that wait and may run on `pcpu`.
    fn most_lagging(&self, pcpu: Pcpu) -> Option<(VirtualTime, Vcpu)> {
        let allowed = |vcpu| self.affinity.allows(vcpu, pcpu);
        self.slots.iter().filter_map(|slot| slot.queue.find(allowed)).min()
    }

    /// The virtual time of the waiting vCPU that lags most.
    pub(super) fn least(&self) -> Option<VirtualTime> {
        let heads = self.slots.iter().filter_map(|slot| slot.queue.first());
        heads.map(|(time, _)| time).min()
    }

    /// The virtual time of the owner that lags most, of those that count.
    pub(super) fn least_running(&self, counts: impl Fn(&Slot) -> bool) -> Option<VirtualTime> {
        let owners = self.slots.iter().filter(|slot| counts(slot)).filter_map(|slot| slot.owner);
        owners.map(|owner| self.vcpus[owner.index()].time_at(self.now)).min()
    }

    /// The owner that is furthest ahead, of those that have not been asked to come out and that own
    /// a pCPU on which `target` may run.
    pub(super) fn furthest(&self, target: Vcpu) -> Option<(VirtualTime, Vcpu, Pcpu)> {
        let staying = (0..).map(Pcpu).zip(&self.slots).filter(|(_, slot)| !slot.preempting);
        let owners = staying.filter_map(|(pcpu, slot)| {
            let owner = slot.owner.filter(|_| self.affinity.allows(target, pcpu))?;
            Some((self.vcpus[owner.index()].time_at(self.now), owner, pcpu))
        });
        // Of equals, the first.
        owners.reduce(|most, other| if other.0 > most.0 { other } else { most })
    }

    pub(super) fn all_idle(&self) -> impl Iterator<Item = Pcpu> + '_ {
        let all = (0..).map(Pcpu).zip(&self.slots);
        all.filter(|(_, slot)| slot.owner.is_none()).map(|(pcpu, _)| pcpu)
    }

    /// An idle pCPU for `vcpu`: `home` if that is idle.
    pub(super) fn idle_for(&self, vcpu: Vcpu, home: Pcpu) -> Option<Pcpu> {
        let fits = |pcpu: &Pcpu| self.affinity.allows(vcpu, *pcpu);
        let is_idle = self.slots[home.index()].owner.is_none();
        Some(home).filter(|home| is_idle && fits(home)).or_else(|| self.all_idle().find(fits))
    }

    /// The virtual time beyond which no vCPU is boosted: `yield_lead` ahead of the one that lags
    /// most of all that wait or run.
    ///
    /// Running vCPUs count too, or they would fall back a little each time they yield. But one that
    /// has long had a pCPU to itself and still lags has more weight than a pCPU can honour, and
    /// must not block the others for ever. Twice the lead is enough time to catch up.
    pub(super) fn limit(&self) -> Option<VirtualTime> {
        let lead = self.config.yield_lead;
        let recent = |slot: &Slot| self.now - slot.entered <= lead + lead;
        let running = self.least_running(recent);
        let least = [self.least(), running].into_iter().flatten().min()?;
        Some(least.plus(standard(lead)))
    }

    /// Judges whether vCPUs can have `giver`'s pCPU, for a [limit](Self::limit).
    pub(super) fn judge(&self, giver: Vcpu, pcpu: Pcpu, limit: Option<VirtualTime>) -> Judge<'_> {
        Judge { vcpus: &self.vcpus, affinity: &self.affinity, giver, pcpu, limit }
    }
}
