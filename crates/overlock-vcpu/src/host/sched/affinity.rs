//! Which pCPUs a vCPU may run on.

use alloc::vec::Vec;

use crate::host::{Pcpu, Vcpu};

/// The pCPUs on which a vCPU may run, of each vCPU that is restricted.
#[derive(Debug)]
pub(super) struct Affinity(pub(super) Vec<Option<Vec<bool>>>);

impl Affinity {
    pub(super) fn allows(&self, vcpu: Vcpu, pcpu: Pcpu) -> bool {
        let set = self.0.get(vcpu.index()).and_then(Option::as_ref);
        set.is_none_or(|set| set[pcpu.index()])
    }

    /// `pcpu` if `vcpu` may run there; otherwise the first pCPU on which it may run.
    pub(super) fn nearest(&self, vcpu: Vcpu, pcpu: Pcpu) -> Pcpu {
        let set = self.0[vcpu.index()].as_ref().filter(|set| !set[pcpu.index()]);
        let first = set.and_then(|set| set.iter().position(|&allowed| allowed));
        first.map_or(pcpu, |first| Pcpu(first as u32))
    }
}
