//! A host's view of one vCPU's life.

use crate::timeline::Stint;

/// Counts and times of one vCPU, as its host saw them. A value that a world does not know is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Accounts {
    pub ran_ns: u64,
    /// Nanoseconds runnable, but without a processor.
    pub steal_ns: u64,
    pub halted_ns: u64,
    pub halts: u64,
    pub kicks: u64,
    /// Interrupts sent; one that goes to all others counts once.
    pub interrupts: u64,
    pub long_spins: u64,
    pub yields: u64,
    /// Long spins that sampling found.
    pub sampled_spins: u64,
    /// Grace periods that it was given and returned from.
    pub graces: u64,
    /// How many times a signal brought it out of the guest.
    pub evictions: u64,
    /// How many of those times it lost its processor.
    pub preemptions: u64,
    /// How many of those preemptions came at the end of its slice.
    pub slices: u64,
    /// How many nanoseconds those slices lasted, from when it owned the processor, in total.
    pub slice_ns: u64,
    /// Nanoseconds by which it outstayed those slices, in total.
    pub overrun_ns: u64,
    /// Nanoseconds for which it had a processor but its thread had none of the system's own CPUs:
    /// what the system took from the processors that the vCPUs share.
    pub run_delay_ns: u64,
    pub pm_reads: u64,
    /// Nanoseconds for which those reads waited for other readers.
    pub pm_wait_ns: u64,
    /// Its successive standings while a [`Timeline`](crate::Timeline) was recorded.
    #[serde(skip)]
    pub stints: Vec<Stint>,
}
