//! A job: everything that determines one run, as data. Any world can be asked to do it, in any
//! process, at any time.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::RunConfig;
use crate::experiment::Host;
use crate::experiment::host::is_default;
use crate::workload::Profile;
use overlock_results::locks::{Build, LOCKS, Lock};
use overlock_results::units::{DurationArg, three};
use overlock_results::{Error, Lengths, NO_POLICY, PmTimerRule, Task};

/// What threads can do beyond the lengths of a [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How lengths are spread around their means.
    pub lengths: Lengths,
    /// Mean lengths of critical sections and pauses in the second half of a run, if they change.
    pub then_ns: Option<[u64; 2]>,
    /// How many times as long the critical sections of the first thread are.
    pub uneven: u32,
    /// What the threads use the lock for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub task: Task,
    /// How many busy processes run beside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { lengths: Lengths::Fixed, then_ns: None, uneven: 1, task: Task::default(), beside: 0 }
    }
}

/// One run: what runs, under which lock and policy, where, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The workload, with its lengths chosen.
    pub profile: Profile,
    /// What the lengths do beyond that; the default but for threads.
    pub shape: Shape,
    /// The share of what hand-overs allow that chose the work between critical sections, if it did.
    pub contention: Option<f64>,
    /// The lock's name, as in rows.
    pub lock: String,
    pub policy: String,
    /// How vCPUs that read the PM timer share it; it matters only where the workload reads it.
    pub timer: PmTimerRule,
    pub cpus: u32,
    /// What all points of an experiment have in common.
    pub host: Host,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Whether to count the events of the lock, where that costs something.
    pub counted: bool,
    /// Whether to log every operation, to explain where the time went.
    pub logged: bool,
    /// For how long to record which vCPU ran where and held what; 0 means not at all.
    pub timeline_ns: u64,
}

impl Job {
    /// The job of the point with `cpus` vCPUs that all do `profile` under the lock called `lock`.
    pub fn new(profile: Profile, lock: &str, cpus: u32, host: Host) -> Self {
        Self {
            profile,
            shape: Shape::default(),
            contention: None,
            lock: lock.to_owned(),
            policy: NO_POLICY.to_owned(),
            timer: PmTimerRule::LockFree,
            cpus,
            host,
            seed: 0,
            counted: false,
            logged: false,
            timeline_ns: 0,
        }
    }

    /// Whether the host hears of vCPUs that spin. Without a policy it does not: there is no pause
    /// window, and nobody is sampled.
    pub fn is_asked(&self) -> bool {
        self.policy != NO_POLICY
    }

    /// How long a vCPU may spin before it reports to the host, in nanoseconds; 0 means for ever.
    pub fn pause_window_ns(&self) -> u64 {
        if self.is_asked() { self.host.pause_window_ns } else { 0 }
    }

    /// How often running vCPUs are checked for spinning, in nanoseconds; 0 means never.
    pub fn sample_ns(&self) -> u64 {
        if self.is_asked() { self.host.sample_ns } else { 0 }
    }

    pub fn resolved(&self) -> Result<Lock, Error> {
        let name = &self.lock;
        Lock::named(name).ok_or_else(|| Error(format!("there is no lock '{name}'")))
    }

    /// Refuses what vCPUs can't do: locks that exist for threads only, policies that are not among
    /// `policies`, and what only threads have.
    pub fn check_virtual(&self, policies: &[&str]) -> Result<(), Error> {
        let lock = self.resolved()?;
        let name = &lock.name;
        if self.shape.task.reads() || lock.is_read_write() {
            return Err(Error("readers exist for threads only: bench --read-share 90".into()));
        }
        if matches!(lock.build(), Build::Peer | Build::Broken) {
            return Err(Error(format!(
                "{name} needs an operating system below it, so it exists for threads only: \
                 bench --in threads; or choose from {}",
                LOCKS.join(", ")
            )));
        }
        if !policies.contains(&&*self.policy) {
            let (policy, known) = (&self.policy, policies.join(", "));
            return Err(Error(format!("no yield policy is called {policy}; choose from {known}")));
        }
        if self.shape != Shape::default() {
            return Err(Error(
                "lengths that vary, change or are uneven, and conditions exist for threads only"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The same as an engine of vCPUs wants it. `lock` is [`Job::lock`], resolved.
    pub fn config<'run>(&'run self, lock: &Lock, cancel: &'run AtomicBool) -> RunConfig<'run> {
        let span = Duration::from_nanos;
        RunConfig {
            duration: Duration::from_secs_f64(self.host.seconds),
            guest_vcpus: self.host.guest_vcpus,
            scheduler: self.host.scheduler,
            hidden_ipis: self.host.hidden_ipis,
            halt_poll: span(self.host.halt_poll_ns),
            slice: span(self.host.slice_ns),
            critical: span(self.host.grace_ns),
            policy: &self.policy,
            paravirtual: lock.paravirtual,
            pause_window: span(self.pause_window_ns()),
            sample_every: Some(span(self.sample_ns())).filter(|every| !every.is_zero()),
            pm_timer: self.timer,
            slow_wake: span(self.host.slow_wake_ns),
            timeline: Some(span(self.timeline_ns)).filter(|length| !length.is_zero()),
            cancel: Some(cancel),
            ..RunConfig::new(self.cpus, self.host.pcpus)
        }
    }

    /// Names what the points of a group share, for people.
    pub fn group(&self) -> String {
        let Profile { name, section_ns, think_ns, .. } = &self.profile;
        let contention = self.contention.map(|share| three(100.0 * share));
        let contention = contention.map_or_else(String::new, |c| format!(" (contention {c} %)"));
        let beside = overlock_results::row::beside(Some(self.shape.beside).filter(|of| *of > 0));
        let [cs, ncs] = [*section_ns, *think_ns].map(DurationArg);
        format!("{name}, cs {cs}, ncs {ncs}{contention}{beside}")
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, policy, cpus, .. } = self;
        write!(f, "{}: {lock}", self.group())?;
        if self.is_asked() {
            write!(f, ", {policy}")?;
        }
        if self.profile.timer_reads > 0 {
            write!(f, ", timer {}", self.timer.name())?;
        }
        write!(f, ", {cpus} on {}", self.host.pcpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job::new(Profile::named("micro").unwrap(), "hybrid", 4, Host::default())
    }

    #[test]
    fn without_a_policy_the_host_hears_nothing() {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let host = Host { sample_ns: 7, ..Host::default() };
        let none = Job { host, ..job() };
        let lock = Lock::named("hybrid").unwrap();
        let config = none.config(&lock, &NEVER);
        assert_eq!((config.pause_window, config.sample_every), (Duration::ZERO, None));
        let asked = Job { policy: "oracle".into(), ..none };
        let config = asked.config(&lock, &NEVER);
        assert_eq!(config.pause_window, Duration::from_micros(50));
        assert_eq!(config.sample_every, Some(Duration::from_nanos(7)));
    }

    #[test]
    fn a_job_as_text_says_all_of_it() {
        let host = Host { slice_ns: 1, ..Host::default() };
        let job = Job { seed: 8, cpus: 5, lock: "queued".into(), host, ..job() };
        let read: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(read, job);
    }
}
