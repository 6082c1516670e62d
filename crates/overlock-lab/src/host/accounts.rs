// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host knows of one vCPU's life.

use overlock_host::sched::Usage;

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
    /// Nanoseconds by which it outstayed those slices, all together.
    pub overrun_ns: u64,
    /// Nanoseconds that its thread was ready to run, but without one of the system's own CPUs: what
    /// the system took from the processors that the vCPUs share.
    pub run_delay_ns: u64,
    /// Reads of the PM timer.
    pub pm_reads: u64,
}

impl Accounts {
    /// Adds the time that the scheduler has measured, and what the system says of the thread.
    pub(super) fn with(mut self, usage: Usage, run_delay_ns: u64) -> Self {
        (self.ran_ns, self.steal_ns, self.halted_ns) = (usage.ran.0, usage.steal.0, usage.halted.0);
        self.run_delay_ns = run_delay_ns;
        self
    }

    /// Counts an exit.
    pub(super) fn count(&mut self, exit: &Exit) {
        let counter = match exit {
            Exit::Call(Call::Halt, _) => &mut self.halts,
            Exit::Call(Call::Kick, _) => &mut self.kicks,
            Exit::Call(Call::Ipi | Call::IpiAll, _) => &mut self.interrupts,
            Exit::Call(Call::LongSpin, _) => &mut self.long_spins,
            Exit::Call(Call::EndGrace, _) => &mut self.graces,
            Exit::Call(Call::YieldTo, _) => &mut self.yields,
            Exit::Evicted(_) => &mut self.evictions,
            Exit::Call(Call::Started | Call::Finished, _) | Exit::Ready | Exit::Ended(_) => return,
        };
        *counter += 1;
    }
}
