// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pCPUs on which a vCPU may run.

use alloc::vec;
use alloc::vec::Vec;

use super::pcpus::PcpuSet;
use crate::host::{Pcpu, Vcpu};

/// The pCPUs to which vCPUs are restricted; most are not restricted.
#[derive(Debug)]
pub(super) struct Affinity {
    sets: Vec<Option<PcpuSet>>,
}

impl Affinity {
    /// No vCPU is restricted.
    pub(super) fn new(vcpus: u32) -> Self {
        Self { sets: vec![None; vcpus as usize] }
    }

    /// The pCPUs to which `vcpu` is restricted, if it is.
    pub(super) fn of(&self, vcpu: Vcpu) -> Option<&PcpuSet> {
        self.sets.get(vcpu.index())?.as_ref()
    }

    /// Whether `vcpu` may run on `pcpu`.
    pub(super) fn allows(&self, vcpu: Vcpu, pcpu: Pcpu) -> bool {
        self.of(vcpu).is_none_or(|set| set.has(pcpu))
    }

    /// `pcpu` if `vcpu` may run there; otherwise the first pCPU on which it may run.
    pub(super) fn nearest(&self, vcpu: Vcpu, pcpu: Pcpu) -> Pcpu {
        let elsewhere = self.of(vcpu).filter(|set| !set.has(pcpu)).and_then(PcpuSet::first);
        elsewhere.unwrap_or(pcpu)
    }

    /// Restricts `vcpu`, which exists, to a set, or lifts the restriction.
    pub(super) fn set(&mut self, vcpu: Vcpu, set: Option<PcpuSet>) {
        self.sets[vcpu.index()] = set;
    }
}
