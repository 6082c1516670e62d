// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the embedder may change while guests run: weights, to which guest a vCPU belongs, and where
//! it may run.

use core::num::NonZeroU32;

use super::pcpus::PcpuSet;
use super::yield_to::Policy;
use super::{Action, AffinityError, Guest, Scheduler, Standing};
use crate::{Nanos, Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// Gives `vcpu` this weight: its share of CPU time against the others' from now on.
    ///
    /// A vCPU that does not exist has none. Each weight that was ever in use takes about 200 bytes
    /// a pCPU, and time in each event; a few are what this is made for.
    pub fn set_weight(&mut self, vcpu: Vcpu, weight: NonZeroU32) {
        let now = self.now;
        let Some(record) = self.vcpus.get_mut(vcpu.index()) else { return };
        self.owners.admit(weight);
        record.account(now);
        record.weight = weight;
        if let Standing::Running(pcpu) = record.standing {
            let stays = !self.slots[pcpu.index()].preempting;
            self.owners.account(pcpu, record, stays);
        }
    }

    /// Says that `vcpu` belongs to `guest`. Vcpus of several guests share the pCPUs by their
    /// weights; a spin, or a kick, boosts only vCPUs of its own guest, whatever the policy.
    ///
    /// A vCPU that does not exist belongs to none. Change it while the vCPU is halted or stopped.
    pub fn set_guest(&mut self, vcpu: Vcpu, guest: Guest) {
        if let Some(record) = self.vcpus.get_mut(vcpu.index()) {
            record.guest = guest;
        }
    }

    /// Restricts `vcpu` to the pCPUs of `allowed`, at `now`; all of them lift the restriction.
    ///
    /// One that runs elsewhere is asked to come out, and one that waits elsewhere waits where it
    /// may run from now on. Where any vCPU is restricted, ask [`rebalance`](Self::rebalance) after
    /// every event. This allocates.
    ///
    /// Virtual time is one clock for all pCPUs. Where sets of vCPUs are restricted to disjoint
    /// pCPUs that are loaded unequally, those on the less loaded ones run ahead of it: they then
    /// take turns slice by slice whatever their weights, and are not boosted.
    ///
    /// # Errors
    /// If one of the CPUs does not exist, or `allowed` is empty. Nothing has changed then.
    pub fn set_affinity(
        &mut self,
        now: Nanos,
        vcpu: Vcpu,
        allowed: &[Pcpu],
    ) -> Result<Option<Action>, AffinityError> {
        let standing = self.standing(vcpu).ok_or(AffinityError::NoVcpu(vcpu))?;
        if let Some(&unknown) = allowed.iter().find(|pcpu| pcpu.0 >= self.config.pcpus) {
            return Err(AffinityError::NoPcpu(unknown));
        }
        let mut set = PcpuSet::new(self.config.pcpus);
        allowed.iter().for_each(|&pcpu| set.set(pcpu, true));
        let first = set.first().ok_or(AffinityError::Nowhere(vcpu))?;
        let everywhere = set.iter().count() == self.config.pcpus as usize;
        self.now = self.now.max(now);
        self.decided = false;
        self.affinity.set(vcpu, (!everywhere).then_some(set));
        Ok(match standing {
            Standing::Running(pcpu) if !self.affinity.allows(vcpu, pcpu) => {
                let asked = self.slots[pcpu.index()].preempting;
                if asked { None } else { self.preempt(vcpu, pcpu) }
            }
            Standing::Running(_) => None,
            Standing::Queued(pcpu) => {
                if !self.affinity.allows(vcpu, pcpu) {
                    self.dequeue(vcpu, pcpu);
                    self.enqueue(vcpu, first);
                }
                self.rebalance()
            }
            Standing::Halted | Standing::Stopped => {
                let record = &mut self.vcpus[vcpu.index()];
                record.home = self.affinity.nearest(vcpu, record.home);
                None
            }
        })
    }

    /// Lets a vCPU that waits run on a pCPU that is idle, if there are such; call it until it finds
    /// nothing.
    ///
    /// Only restricted vCPUs ever give it something to do. Who may run anywhere never waits while a
    /// pCPU is idle; but one that makes room for a restricted vCPU, which may only run there, does,
    /// and an event leads to one action only.
    pub fn rebalance(&mut self) -> Option<Action> {
        if self.waiting == 0 {
            return None;
        }
        let pcpu = self.idle.iter().find(|&pcpu| self.pick(pcpu).is_some())?;
        Some(self.fill(pcpu))
    }
}
