//! `oracle`: picks the vCPU for which the spinner really waits. No host can know this; a laboratory
//! can, and its figure shows what a perfect guess would be worth.
//!
//! That vCPU is the lock's holder if it is off CPU. If the holder runs, it is the first waiter
//! before the spinner that is off CPU: the lock will come to it, and stop there. If all of them
//! run, the oracle lets the spinner spin on, because nothing can be sped up. If the vCPU has had
//! too much CPU time to be boosted, the one that lags most runs instead: spinning would not help,
//! and the awaited vCPU can be boosted the sooner.

use super::{Chosen, Missed, Policy, Ruling, Skipped, Trace, View};
use crate::host::sched::Spin;

/// Boosts the vCPU that is really waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Policy for Oracle {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let Some(awaited) = spin.awaited(view) else { return Ruling::Stay(Missed::HolderUnknown) };
        if view.fit(awaited, trace) {
            return Ruling::To(awaited, Chosen::TrueHolder);
        }
        match view.unfit(awaited) {
            Some(Skipped::Running) => Ruling::Stay(Missed::HolderRunning),
            Some(Skipped::Halted) => Ruling::Stay(Missed::HolderHalted),
            Some(Skipped::AheadOfShare) => Ruling::Plain(Missed::AheadOfShare),
            _ => Ruling::Stay(Missed::NoCandidate),
        }
    }
}
