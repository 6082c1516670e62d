//! One simulated run, as data.

use overlock_bench::{Failed, Job, World};
use overlock_results::Run;
use overlock_sim::hosts::{HostProfile, More, Simulator};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) host: HostProfile,
    pub(super) job: Job,
}

impl Task {
    /// Returns what determines its run, with the commit of the program.
    pub(super) fn key(&self, commit: &str) -> String {
        let host = serde_json::to_string(&self.host).unwrap_or_default();
        self.job.key(&format!("{} {commit} {host}", env!("CARGO_PKG_VERSION")))
    }

    pub(super) fn run(&self, more: More, cancel: &AtomicBool) -> Result<Run, Failed> {
        Simulator { host: self.host.clone(), more }.run(&self.job, cancel)
    }

    /// Estimates how long the task takes, relative to others.
    pub(super) fn size(&self) -> u64 {
        ((self.job.host.seconds * 1e9) as u64).saturating_mul(self.job.cpus.into())
    }

    pub(super) fn name(&self) -> String {
        format!("{}, seed {}", self.job, self.job.seed)
    }
}
