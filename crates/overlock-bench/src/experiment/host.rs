//! What all points of an experiment have in common.

use serde::{Deserialize, Serialize};

use crate::vcpus::engine::HostScheduler;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// The host on which a simulation runs unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many vCPUs may run at a time; 0 means as many as the world has by default.
    pub pcpus: u32,
    /// How many vCPUs make a guest of their own, in a simulation; 0 means all.
    #[serde(skip_serializing_if = "is_default")]
    pub guest_vcpus: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub scheduler: HostScheduler,
    /// Whether interrupts between simulated vCPUs take no exit, so that the host does not know
    /// their senders.
    #[serde(skip_serializing_if = "is_default")]
    pub hidden_ipis: bool,
    /// For how long a simulated host polls at most for the end of a vCPU's halt, as KVM's parameter
    /// of this name, which is 200,000; 0 means it does not.
    #[serde(skip_serializing_if = "is_default")]
    pub halt_poll_ns: u64,
    /// How long a vCPU keeps its pCPU while others wait, under our scheduler.
    pub slice_ns: u64,
    /// How much longer it may keep it inside a critical section; 0 means not at all.
    pub grace_ns: u64,
    /// How long a vCPU spins before it reports to the host, under policies other than `none`.
    pub pause_window_ns: u64,
    /// How often to check whether vCPUs spin, under the same policies; 0 means never.
    pub sample_ns: u64,
    /// How long a halted vCPU takes to run again, at least on vCPUs of KVM, exactly on simulated
    /// ones; 0 means as long as it takes.
    #[serde(skip_serializing_if = "is_default")]
    pub slow_wake_ns: u64,
    pub seconds: f64,
    pub runs: u16,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            machine: None,
            pcpus: 2,
            guest_vcpus: 0,
            scheduler: HostScheduler::Overlock,
            hidden_ipis: false,
            halt_poll_ns: 0,
            slice_ns: 1_000_000,
            grace_ns: 0,
            pause_window_ns: 50_000,
            sample_ns: 0,
            slow_wake_ns: 0,
            seconds: 0.5,
            runs: 3,
        }
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
