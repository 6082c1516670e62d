//! `round-robin`: the next ready vCPU after the last one boosted.
//!
//! It does not know which vCPUs spin, so in a large guest it mostly boosts another spinner; but it
//! finds a preempted holder within one round: among n vCPUs on one pCPU, within n spins.
//!
//! Source: R. van Riel, "KVM: use yield_to instead of sleep in kvm_vcpu_on_spin", 2011.

use super::{Chosen, Policy, Rotation, Ruling, Trace, View};
use crate::host::sched::Spin;

/// Boosts the ready vCPUs in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    rotation: Rotation,
}

impl Policy for RoundRobin {
    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        self.rotation.verdict(view, trace, u32::MAX, |_| Ok(Chosen::NextInTurn))
    }
}
