// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host sees of one vCPU's life.

use crate::timeline::Stint;

/// Counts and times of one vCPU, as its host saw them. What a world does not know is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Accounts {
    /// Nanoseconds on a processor.
    pub ran_ns: u64,
    /// Nanoseconds runnable, but without a processor.
    pub steal_ns: u64,
    /// Nanoseconds halted.
    pub halted_ns: u64,
    /// Halts asked for.
    pub halts: u64,
    /// Kicks sent.
    pub kicks: u64,
    /// Interrupts sent; one to all others is one.
    pub interrupts: u64,
    /// Long spins that it reported.
    pub long_spins: u64,
    /// Yields that it asked for.
    pub yields: u64,
    /// Long spins that sampling found.
    pub sampled_spins: u64,
    /// Grace periods it was given and returned from.
    pub graces: u64,
    /// Times a signal brought it out of the guest.
    pub evictions: u64,
    /// Times it lost its processor that way.
    pub preemptions: u64,
    /// Those of them that came of the end of its slice.
    pub slices: u64,
    /// Nanoseconds that those slices lasted, from when it owned the processor, all together.
    pub slice_ns: u64,
    /// Nanoseconds by which it outstayed them, all together.
    pub overrun_ns: u64,
    /// Nanoseconds that it had a processor, but its thread none of the system's own CPUs: what the
    /// system took from the processors that the vCPUs share.
    pub run_delay_ns: u64,
    /// Reads of the PM timer.
    pub pm_reads: u64,
    /// Its standings one after the other while a [`Timeline`](crate::Timeline) was taken.
    #[serde(skip)]
    pub stints: Vec<Stint>,
}
