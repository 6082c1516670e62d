//! What the embedder can change while guests run: weights, the guest to which a vCPU belongs, and
//! the pCPUs on which it may run.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::yield_to::Policy;
use super::{Action, Error, Guest, Scheduler, Standing};
use crate::host::{Nanos, Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// Gives `vcpu` this weight: its share of CPU time relative to the others from now on.
    ///
    /// # Errors
    /// If `vcpu` does not exist.
    pub fn set_weight(&mut self, vcpu: Vcpu, weight: NonZeroU32) -> Result<(), Error> {
        let now = self.now;
        let record = self.vcpus.get_mut(vcpu.index()).ok_or(Error::NoVcpu(vcpu))?;
        record.account(now);
        record.weight = weight;
        Ok(())
    }

    /// Assigns `vcpu` to `guest`. The vCPUs of several guests share the pCPUs by their weights; a
    /// spin boosts only vCPUs of its own guest, whatever the policy.
    ///
    /// Change the guest only while the vCPU is halted or stopped.
    ///
    /// # Errors
    /// If `vcpu` does not exist.
    pub fn set_guest(&mut self, vcpu: Vcpu, guest: Guest) -> Result<(), Error> {
        self.vcpus.get_mut(vcpu.index()).ok_or(Error::NoVcpu(vcpu))?.guest = guest;
        Ok(())
    }

    /// Restricts `vcpu` to the pCPUs in `allowed`, at `now`. Naming all pCPUs lifts the
    /// restriction.
    ///
    /// A vCPU that runs elsewhere is asked to come out, and one that waits elsewhere waits from now
    /// on where it may run. If any vCPU is restricted, call [`rebalance`](Self::rebalance) after
    /// every event. This allocates.
    ///
    /// Virtual time is one clock for all pCPUs. If sets of vCPUs are restricted to disjoint pCPUs
    /// that are loaded unequally, those on the less loaded pCPUs run ahead of it: they then take
    /// turns slice by slice whatever their weights, and are not boosted.
    ///
    /// # Errors
    /// If one of the CPUs does not exist, `allowed` is empty, or `now` is before the last event.
    /// Then nothing has changed.
    pub fn set_affinity(
        &mut self,
        now: Nanos,
        vcpu: Vcpu,
        allowed: &[Pcpu],
    ) -> Result<Option<Action>, Error> {
        self.not_earlier(now)?;
        let standing = self.known(vcpu)?;
        if let Some(&unknown) = allowed.iter().find(|pcpu| pcpu.0 >= self.config.pcpus) {
            return Err(Error::NoPcpu(unknown));
        }
        let &first = allowed.iter().min().ok_or(Error::Nowhere(vcpu))?;
        let set: Vec<bool> =
            (0..self.config.pcpus).map(|pcpu| allowed.contains(&Pcpu(pcpu))).collect();
        let everywhere = set.iter().all(|&allowed| allowed);
        self.now = now;
        self.decided = false;
        self.affinity.0[vcpu.index()] = (!everywhere).then_some(set);
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

    /// Lets a waiting vCPU run on an idle pCPU, if there is such a pair; call it until it returns
    /// `None`.
    ///
    /// Only restricted vCPUs ever give it work. A vCPU that may run anywhere never waits while a
    /// pCPU is idle, unless it makes room for a restricted vCPU, which may run only there: an event
    /// leads to only one action.
    pub fn rebalance(&mut self) -> Option<Action> {
        if self.waiting == 0 {
            return None;
        }
        let pcpu = self.all_idle().find(|&pcpu| self.pick(pcpu).is_some())?;
        Some(self.fill(pcpu))
    }
}
