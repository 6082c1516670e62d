//! Choosing among the waiting vCPUs: by virtual time, or by a boost past it.

use super::Scheduler;
use super::judge::{Judge, standard};
use super::scheduler::Slot;
use super::vcpu::VirtualTime;
use super::yield_to::Policy;
use crate::host::{Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// The vCPU that should have `pcpu` next, of those that wait.
    pub(super) fn pick(&self, pcpu: Pcpu) -> Option<Vcpu> {
        let slot = &self.slots[pcpu.index()];
        if let Some(next) = slot.next.filter(|&next| self.is_preempted(next)) {
            return Some(next);
        }
        match (slot.queue.first(), self.most_lagging()) {
            (Some((here, local)), Some((there, remote))) => {
                let worth = here > there.plus(standard(self.config.migrate_lag));
                Some(if worth { remote } else { local })
            }
            (_, most) => most.map(|(_, remote)| remote),
        }
    }

    /// The waiting vCPU that lags most.
    fn most_lagging(&self) -> Option<(VirtualTime, Vcpu)> {
        self.slots.iter().filter_map(|slot| slot.queue.first()).min()
    }

    /// The virtual time of the waiting vCPU that lags most.
    pub(super) fn least(&self) -> Option<VirtualTime> {
        self.most_lagging().map(|(time, _)| time)
    }

    /// The virtual time of the owner that lags most, of those that count.
    pub(super) fn least_running(&self, counts: impl Fn(&Slot) -> bool) -> Option<VirtualTime> {
        let owners = self.slots.iter().filter(|slot| counts(slot)).filter_map(|slot| slot.owner);
        owners.map(|owner| self.vcpus[owner.index()].time_at(self.now)).min()
    }

    /// The owner that is furthest ahead, of those that have not been asked to come out.
    pub(super) fn furthest(&self) -> Option<(VirtualTime, Vcpu, Pcpu)> {
        let staying = (0..).map(Pcpu).zip(&self.slots).filter(|(_, slot)| !slot.preempting);
        let owners = staying.filter_map(|(pcpu, slot)| {
            let owner = slot.owner?;
            Some((self.vcpus[owner.index()].time_at(self.now), owner, pcpu))
        });
        // Of equals, the first.
        owners.reduce(|most, other| if other.0 > most.0 { other } else { most })
    }

    /// An idle pCPU: `home` if that is idle.
    pub(super) fn idle(&self, home: Pcpu) -> Option<Pcpu> {
        let is_idle = |pcpu: &Pcpu| self.slots[pcpu.index()].owner.is_none();
        Some(home).filter(is_idle).or_else(|| (0..self.config.pcpus).map(Pcpu).find(is_idle))
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
    pub(super) fn judge(&self, giver: Vcpu, limit: Option<VirtualTime>) -> Judge<'_> {
        Judge { vcpus: &self.vcpus, giver, limit }
    }
}
