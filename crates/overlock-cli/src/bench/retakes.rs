// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that were disturbed, again.

use crate::interrupt;
use crate::warnings::DISTURBED;
use overlock_process::CpuTimes;
use overlock_world::{Failed, Job, Run, World};

/// How often one run may be repeated.
const EACH: u32 = 2;

/// How many more runs may be repeated.
pub(super) struct Retakes(u64);

impl Retakes {
    /// All repetitions together may add at most half of the planned runs.
    pub(super) fn new(runs: u64) -> Self {
        Retakes(runs / 2)
    }

    /// Runs a job once, and again if the hypervisor or other processes took too much of the time
    /// during the run: of three runs, the least disturbed is kept.
    pub(super) fn run(&mut self, world: &dyn World, job: &Job) -> Result<Run, Failed> {
        let mut best: Option<Run> = None;
        for retaken in 0..=EACH {
            let before = world.is_real().then(CpuTimes::now);
            let mut run = world.run(job, interrupt::flag())?;
            if let Some(before) = before.filter(|_| run.steal == 0.0) {
                run.steal = CpuTimes::now().since(before).steal_share();
            }
            let taken = run.disturbance;
            if best.as_ref().is_none_or(|best| taken < best.disturbance) {
                best = Some(Run { retaken, ..run });
            }
            if taken <= DISTURBED || self.0 == 0 || interrupt::seen() {
                break;
            }
            self.0 -= 1;
        }
        best.ok_or(Failed::Cancelled)
    }
}
