//! The accounting of exits.

use crate::host::sched::Usage;
use overlock_results::Accounts;

use super::state::Exit;
use crate::lab::guest::abi::Call;

/// Adds the time that the scheduler has measured, and the run delay of the thread.
pub(super) fn with(life: Accounts, usage: Usage, run_delay_ns: u64) -> Accounts {
    let (ran_ns, steal_ns, halted_ns) = (usage.ran.0, usage.steal.0, usage.halted.0);
    Accounts { ran_ns, steal_ns, halted_ns, run_delay_ns, ..life }
}

pub(super) fn count(life: &mut Accounts, exit: &Exit) {
    let counter = match exit {
        Exit::Call(Call::Halt, _) => &mut life.halts,
        Exit::Call(Call::Kick, _) => &mut life.kicks,
        Exit::Call(Call::Ipi | Call::IpiAll, _) => &mut life.interrupts,
        Exit::Call(Call::LongSpin, _) => &mut life.long_spins,
        Exit::Call(Call::EndGrace, _) => &mut life.graces,
        Exit::Call(Call::YieldTo, _) => &mut life.yields,
        Exit::Evicted { .. } => &mut life.evictions,
        Exit::Call(Call::Started | Call::Finished, _) | Exit::Ready | Exit::Ended(_) => return,
    };
    *counter += 1;
}
