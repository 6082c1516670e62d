// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host knows of one vCPU's life.

use super::Exit;
use crate::guest::abi::Call;

/// Counts and times of one vCPU, as its host saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
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
    /// Interrupts sent.
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
    /// Reads of the PM timer.
    pub pm_reads: u64,
}

impl Accounts {
    /// Counts an exit.
    pub(super) fn count(&mut self, exit: &Exit) {
        let counter = match exit {
            Exit::Call(Call::Halt, _) => &mut self.halts,
            Exit::Call(Call::Kick, _) => &mut self.kicks,
            Exit::Call(Call::Ipi, _) => &mut self.interrupts,
            Exit::Call(Call::LongSpin, _) => &mut self.long_spins,
            Exit::Call(Call::EndGrace, _) => &mut self.graces,
            Exit::Call(Call::YieldTo, _) => &mut self.yields,
            Exit::Evicted(_) => &mut self.evictions,
            Exit::Call(Call::Started | Call::Finished, _) | Exit::Ready | Exit::Ended(_) => return,
        };
        *counter += 1;
    }
}
