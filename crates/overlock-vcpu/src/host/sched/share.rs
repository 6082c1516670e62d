//! What the embedder can change while guests run: weights, and the guest to which a vCPU belongs.

use core::num::NonZeroU32;

use super::yield_to::Policy;
use super::{Guest, SchedError, Scheduler};
use crate::host::Vcpu;

impl<P: Policy> Scheduler<P> {
    /// Gives `vcpu` this weight: its share of CPU time relative to the others from now on.
    ///
    /// # Errors
    /// If `vcpu` does not exist.
    pub fn set_weight(&mut self, vcpu: Vcpu, weight: NonZeroU32) -> Result<(), SchedError> {
        let now = self.now;
        let record = self.vcpus.get_mut(vcpu.index()).ok_or(SchedError::NoVcpu(vcpu))?;
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
    pub fn set_guest(&mut self, vcpu: Vcpu, guest: Guest) -> Result<(), SchedError> {
        self.vcpus.get_mut(vcpu.index()).ok_or(SchedError::NoVcpu(vcpu))?.guest = guest;
        Ok(())
    }
}
