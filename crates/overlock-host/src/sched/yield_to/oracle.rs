// SPDX-License-Identifier: MIT OR Apache-2.0
//! `oracle`: picks the vCPU the spinner truly waits for. No host can know this; a laboratory can,
//! and its figure is what a perfect guess would be worth.
//!
//! If that vCPU is running, the oracle spins on: there is nothing to speed up.

use super::{Chosen, Missed, Policy, Skipped, Trace, Verdict, View};
use crate::sched::Spin;

/// Boosts the true holder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        let Some(truth) = spin.truth else { return Verdict::Stay(Missed::HolderUnknown) };
        if view.fit(truth, trace) {
            return Verdict::To(truth, Chosen::TrueHolder);
        }
        Verdict::Stay(match view.unfit(truth) {
            Some(Skipped::Running) => Missed::HolderRunning,
            Some(Skipped::Halted) => Missed::HolderHalted,
            _ => Missed::NoCandidate,
        })
    }
}
