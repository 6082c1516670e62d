// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a simulation, as data: any process can make it, on any machine, at any time.

use super::simulate;
use crate::interrupt;
use crate::lab::{Ran, Run};
use anyhow::{Context, Result};
use overlock_sim::performance::{HostProfile, Setup};
use overlock_world::workload::Profile;
use overlock_world::{Config, PmTimerRule};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Everything that the result of a run depends on, except for the program that makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    host: HostProfile,
    seed: u64,
    seq_cst: bool,
    profile: Profile,
    lock: String,
    policy: String,
    paravirtual: bool,
    timer: PmTimerRule,
    cpus: u32,
    pcpus: u32,
    duration_ns: u64,
    slice_ns: u64,
    grace_ns: u64,
    pause_window_ns: u64,
    sample_ns: u64,
}

/// Converts spans so that a file can hold them.
fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Task {
    /// Makes the task that `setup` would run.
    pub(crate) fn new(setup: &Setup, config: &Config<'_>, profile: &Profile, lock: &str) -> Self {
        Self {
            host: setup.host.clone(),
            seed: setup.seed,
            seq_cst: setup.seq_cst,
            profile: profile.clone(),
            lock: lock.to_owned(),
            policy: config.policy.to_owned(),
            paravirtual: config.paravirtual,
            timer: config.pm_timer,
            cpus: config.vcpus,
            pcpus: config.pcpus,
            duration_ns: ns(config.duration),
            slice_ns: ns(config.slice),
            grace_ns: ns(config.critical),
            pause_window_ns: ns(config.pause_window),
            sample_ns: config.sample_every.map_or(0, ns),
        }
    }

    /// Runs the task in this process.
    pub(crate) fn run(&self) -> Result<Ran> {
        let setup = Setup { host: self.host.clone(), seed: self.seed, seq_cst: self.seq_cst };
        simulate(&setup, &self.config(), &self.profile, &self.lock)
    }

    /// Runs the task by `run`, in another world, which has no host file, seed or `seq_cst`.
    pub(crate) fn run_by(&self, run: &Run<'_>) -> Result<Ran> {
        run(&self.config(), &self.profile, &self.lock)
    }

    fn config(&self) -> Config<'_> {
        let sample = Duration::from_nanos(self.sample_ns);
        Config {
            duration: Duration::from_nanos(self.duration_ns),
            slice: Duration::from_nanos(self.slice_ns),
            critical: Duration::from_nanos(self.grace_ns),
            policy: &self.policy,
            paravirtual: self.paravirtual,
            pause_window: Duration::from_nanos(self.pause_window_ns),
            sample_every: Some(sample).filter(|every| !every.is_zero()),
            pm_timer: self.timer,
            cancel: Some(interrupt::flag()),
            ..Config::new(self.cpus, self.pcpus)
        }
    }

    /// Distinguishes the task from all others, and from the same task of another version of this
    /// program: 16 digits.
    ///
    /// FNV-1a (Fowler, Noll, Vo) of the task as text.
    pub(crate) fn key(&self) -> Result<String> {
        let text = serde_json::to_string(self).context("a task is always text")?;
        let built = concat!(env!("CARGO_PKG_VERSION"), " ", env!("OVERLOCK_COMMIT"), " ");
        let hash = built.bytes().chain(text.bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        Ok(format!("{hash:016x}"))
    }

    /// Estimates how long the task takes, relative to others.
    pub(crate) fn size(&self) -> u64 {
        self.duration_ns.saturating_mul(self.cpus.into())
    }

    /// Names the task, for people.
    pub(crate) fn name(&self) -> String {
        let Self { profile, lock, policy, cpus, seed, .. } = self;
        format!("{}, {lock}, {policy}, {cpus} vCPUs, seed {seed}", profile.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_a_file_and_its_key_tells_it_from_others() {
        let host = HostProfile::named("dev-kvm").unwrap();
        let setup = Setup { host, seed: 7, seq_cst: false };
        let profile = Profile::named("micro").unwrap();
        let config = Config::new(4, 2);
        let task = Task::new(&setup, &config, &profile, "hybrid");
        let text = serde_json::to_string(&task).unwrap();
        let read: Task = serde_json::from_str(&text).unwrap();
        assert_eq!(read, task);
        assert_eq!(read.key().unwrap(), task.key().unwrap());
        let mut keys = vec![task.key().unwrap()];
        for other in [
            Task { seed: 8, ..task.clone() },
            Task { cpus: 5, ..task.clone() },
            Task { lock: "queued".into(), ..task.clone() },
            Task { slice_ns: 1, ..task.clone() },
        ] {
            keys.push(other.key().unwrap());
        }
        let mut costly = task;
        costly.host.costs.rmw.ns += 1;
        keys.push(costly.key().unwrap());
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 6);
    }
}
