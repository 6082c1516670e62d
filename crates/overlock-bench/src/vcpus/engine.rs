//! An engine, which runs programs on the vCPUs of a world; and the configuration of a run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Program, Verbs};
use overlock_results::{Accounts, Error, PmTimerRule};

/// A way to run programs on vCPUs that can be taken away.
pub trait Engine {
    /// The world in which its programs run.
    type Verbs: Verbs;

    /// Why a run has no result.
    type Error: From<Error> + std::error::Error + Send + Sync + 'static;

    /// The name of the engine in records: `kvm`, `threads`, `sim`.
    const NAME: &'static str;

    /// Whether the engine exists on this machine.
    fn availability() -> Result<(), Self::Error>;

    /// Runs `program` on every vCPU for the time that `config` gives.
    ///
    /// # Errors
    /// If the engine is unavailable, the configuration makes no sense, or the run ended with a
    /// fault, a panic, or vCPUs that did not stop. In every case nothing of the run is left.
    fn run<P: Program<Self::Verbs>>(
        &self,
        config: &RunConfig,
        program: &P,
    ) -> Result<Observed, Self::Error>;

    /// About how long a halt, a kick and a wake-up take together on `pcpus` pCPUs of this engine,
    /// in nanoseconds, if that is known without measuring it.
    fn wake_ns(&self) -> Option<u64> {
        None
    }
}

/// What a yield policy did, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Yields {
    /// Every reason that was given, as `directed:lock-holder`, `skipped:running` and so on, with
    /// how often it was given.
    pub codes: BTreeMap<String, u64>,
    /// How often a yield went to the vCPU that was really waited for.
    pub hits: u64,
}

impl Yields {
    /// Those of a tally: outcomes, reasons and counts, and the hits.
    pub fn of<'a>(reasons: impl Iterator<Item = (&'a str, &'a str, u64)>, hits: u64) -> Self {
        let codes = reasons.map(|(kind, why, count)| (format!("{kind}:{why}"), count)).collect();
        Self { codes, hits }
    }
}

/// The scheduler of a simulated host. Real vCPUs are scheduled by ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostScheduler {
    /// That of `overlock-vcpu`: one order of all vCPUs, and yields that hand a pCPU over.
    #[default]
    Overlock,
    /// Linux's of 2012: a queue for each pCPU, and yields that are hints.
    #[serde(rename = "linux-3.5")]
    Linux35,
    /// Linux's of 2017: the same, but a handler of pause loops gives up early where no vCPU waits,
    /// and pause windows grow.
    #[serde(rename = "linux-4.14")]
    Linux414,
}

/// The most vCPUs that a run can have, whatever an engine supports.
pub const VCPUS_MAX: u32 = 1024;

/// The configuration of a run. A span of [`Duration::MAX`] means for ever.
#[derive(Clone, Copy, Debug)]
pub struct RunConfig<'run> {
    /// Virtual CPUs, 1 to [`VCPUS_MAX`]; an engine, or the system, may have room for fewer.
    pub vcpus: u32,
    /// How many of them may run at a time.
    pub pcpus: u32,
    /// How many of them make a guest, which shares locks and shootdowns with no other; 0 means all.
    pub guest_vcpus: u32,
    pub scheduler: HostScheduler,
    /// Whether interrupts between vCPUs take no exit, in a simulation.
    pub hidden_ipis: bool,
    /// For how long the host polls at most for the end of a halt, in a simulation.
    pub halt_poll: Duration,
    /// When the stop flag is set, counted from the moment all vCPUs are ready.
    pub duration: Duration,
    /// How long after that vCPUs may take to return before they are ended by force.
    pub grace: Duration,
    /// How long a vCPU keeps its processor while others wait.
    pub slice: Duration,
    /// How much longer it may keep it, once per slice, if it announces that it is in a critical
    /// section; zero means not at all.
    pub critical: Duration,
    /// The yield policy, which decides what happens to a spinning vCPU's processor; the engine must
    /// know it.
    pub policy: &'run str,
    /// Whether locks that can wait do so, or only spin: "compiled in but off".
    pub paravirtual: bool,
    /// Whether locks publish their holders and waiters, for the host to read. The policy `pv-hint`
    /// makes them do so in any case.
    pub publishes: bool,
    /// How long a vCPU may spin in one loop of pauses before it reports to the host; zero means for
    /// ever.
    ///
    /// This is pause-loop exiting without the hardware, for all locks of `overlock`, including
    /// those that know nothing of being virtual. It costs a reading of the clock for each pause.
    pub pause_window: Duration,
    /// How long a halted vCPU of KVM takes to run again, at least.
    pub slow_wake: Duration,
    /// How the vCPUs share the PM timer.
    pub pm_timer: PmTimerRule,
    /// How often all running vCPUs are stopped to check whether they spin; `None` means never.
    pub sample_every: Option<Duration>,
    /// About how long a halt, a kick and a wake-up take together, in nanoseconds: locks derive
    /// their budgets from it. If it is `None`, [`workload::run`](crate::workload::run) measures it,
    /// and a bare [`Engine::run`] assumes a value.
    pub wake_ns: Option<u64>,
    /// Records which vCPU runs where, and which holds which lock, for this long from the middle of
    /// the run: see [`Timeline`](overlock_results::Timeline).
    pub timeline: Option<Duration>,
    /// Ends the run early when it becomes true.
    pub cancel: Option<&'run AtomicBool>,
}

impl RunConfig<'_> {
    /// A run of one second with slices of one millisecond.
    pub fn new(vcpus: u32, pcpus: u32) -> Self {
        Self {
            vcpus,
            pcpus,
            guest_vcpus: 0,
            scheduler: HostScheduler::Overlock,
            hidden_ipis: false,
            halt_poll: Duration::ZERO,
            duration: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            slice: Duration::from_millis(1),
            critical: Duration::ZERO,
            policy: "none",
            paravirtual: true,
            publishes: false,
            pause_window: Duration::ZERO,
            slow_wake: Duration::ZERO,
            pm_timer: PmTimerRule::LockFree,
            sample_every: None,
            wake_ns: None,
            timeline: None,
            cancel: None,
        }
    }

    /// How many vCPUs a guest has at most.
    pub const fn vcpus_of_guest(&self) -> u32 {
        if self.guest_vcpus == 0 { self.vcpus } else { self.guest_vcpus }
    }

    /// Refuses configurations that make no sense in any world.
    pub fn check(&self) -> Result<(), Error> {
        if self.vcpus == 0 || self.vcpus > VCPUS_MAX {
            let vcpus = self.vcpus;
            return Err(Error(format!("{vcpus} vCPUs asked for; choose 1 to {VCPUS_MAX}")));
        }
        if self.pcpus == 0 {
            return Err(Error("no vCPU can run on 0 pCPUs; choose at least 1".into()));
        }
        Ok(())
    }
}

/// What an engine saw of a run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// From the start of the vCPUs to the setting of the stop flag.
    pub ran: Duration,
    /// When the stop flag was set, on the clock that vCPUs read.
    pub ended_ns: u64,
    pub vcpus: Vec<Accounts>,
    /// What the yield policy did, and why.
    pub yields: Yields,
}
