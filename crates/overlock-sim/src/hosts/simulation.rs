//! The engine: it runs experiments of `overlock-bench` on a simulated host.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use overlock_bench::workload::{self, Profile};
use overlock_bench::{
    Engine, Failed, Hint, Job, Observed, Program, RunConfig, ThisVcpu, World, Yields,
};
use overlock_results::Run;
use overlock_results::locks::Lock;
use overlock_vcpu::host::sched::yield_to::NAMES;

use super::Error;
use super::host_profile::HostProfile;
use super::machine::{Counts, Guest, HostMachine, calls};
use super::memory::Turn;
use super::platform::{Simulated, Tables};
use super::scheduling::MakeScheduler;
use super::timer;

/// Runs a profile under a lock, as [`workload::run`] does.
type RunLock = fn(&Simulation<'_>, &RunConfig<'_>, &Profile, &str) -> Result<Run, Error>;

/// What another program adds to simulations.
#[derive(Clone, Copy, Debug)]
pub struct More {
    /// Runs a profile under a lock, which may be one of that program's.
    pub run: RunLock,
    pub scheduler: Option<MakeScheduler>,
}

impl More {
    pub const NOTHING: Self = Self {
        run: |simulation, config, profile, lock| workload::run(simulation, config, profile, lock),
        scheduler: None,
    };
}

/// A host and a seed. Given these, a simulation is a function of the experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    pub host: HostProfile,
    /// The seed of all randomness.
    pub seed: u64,
    pub more: More,
}

impl Setup {
    /// Runs `profile` under the lock called `lock`, or
    /// [`HAND_OVER`](overlock_results::locks::HAND_OVER), as [`workload::run`] does.
    ///
    /// # Errors
    /// Those of [`workload::run`]; a host that is too small; a program that panics or does not
    /// stop.
    pub fn run(
        &self,
        config: &RunConfig,
        profile: &Profile,
        lock: &str,
    ) -> Result<(Run, Counts), Error> {
        self.during(|simulation| (self.more.run)(simulation, config, profile, lock))
    }

    /// Runs any program, as [`Engine::run`] does.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_program<P: Program<Simulated>>(
        &self,
        config: &RunConfig,
        program: &P,
    ) -> Result<(Observed, Counts), Error> {
        self.during(|simulation| simulation.run(config, program))
    }

    fn during<T>(
        &self,
        run: impl FnOnce(&Simulation<'_>) -> Result<T, Error>,
    ) -> Result<(T, Counts), Error> {
        let _turn = Turn::take();
        let simulation = Simulation { setup: self, counts: RefCell::default() };
        let result = run(&simulation)?;
        Ok((result, simulation.counts.take()))
    }
}

/// The engine on a host. [`Setup::run`] makes one for each run.
#[derive(Debug)]
pub struct Simulation<'a> {
    setup: &'a Setup,
    counts: RefCell<Counts>,
}

impl Engine for Simulation<'_> {
    type Verbs = Simulated;
    type Error = Error;
    const NAME: &'static str = "sim";

    fn availability() -> Result<(), Error> {
        Ok(())
    }

    fn wake_ns(&self) -> Option<u64> {
        Some(self.setup.host.wake_ns())
    }

    fn run<P: Program<Simulated>>(
        &self,
        config: &RunConfig,
        program: &P,
    ) -> Result<Observed, Error> {
        config.check()?;
        let (read, tables) = (timer::reader(config.pm_timer), Tables::new(config.vcpus));
        let guest = Hosted(program);
        let Setup { host, seed, more } = self.setup;
        let mut machine =
            HostMachine::new(host, *seed, config, &guest, &tables, &read, more.scheduler)?;
        let ran = calls::enter(&mut machine);
        if let Err((vcpu, message)) = ran {
            return Err(Error::Panicked { vcpu, message });
        }
        let stuck = machine.stuck();
        if !stuck.is_empty() {
            return Err(Error::Runaway { grace: config.grace, stuck });
        }
        let (vcpus, yields) = machine.books();
        self.counts.borrow_mut().add(machine.counts());
        let ended_ns = machine.stop_at;
        let ran = Duration::from_nanos(ended_ns);
        Ok(Observed { ran, ended_ns, vcpus, yields: Yields::of(yields.reasons(), yields.hits) })
    }
}

/// The running program, as the host sees it.
struct Hosted<'run, P>(&'run P);

impl<P: Program<Simulated>> Guest for Hosted<'_, P> {
    fn run(&self) {
        self.0.run(ThisVcpu::current());
    }
    fn interrupt(&self, number: u32) {
        self.0.interrupt(ThisVcpu::current(), number);
    }
    fn hint(&self, vcpu: u32) -> Hint {
        self.0.hint(vcpu)
    }
    fn truth(&self, vcpu: u32) -> Hint {
        self.0.truth(vcpu)
    }
    fn progress(&self, vcpu: u32) -> u64 {
        self.0.progress(vcpu)
    }
    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        self.0.was_away(vcpu, since_ns, until_ns);
    }
}

/// A host as a world: each job brings its seed.
#[derive(Clone, Debug)]
pub struct Simulator {
    pub host: HostProfile,
    pub more: More,
}

impl World for Simulator {
    fn name(&self) -> &'static str {
        Simulation::NAME
    }

    fn about(&self) -> String {
        format!("the host {}, simulated", self.host.name)
    }

    fn is_real(&self) -> bool {
        false
    }

    fn pcpus(&self) -> u32 {
        self.host.topology.pcpus()
    }

    fn locks(&self) -> Vec<Lock> {
        Lock::all().collect()
    }

    fn check(&self, job: &Job) -> Result<(), overlock_results::Error> {
        let (asked, total) = (job.host.pcpus, self.pcpus());
        if asked > total {
            let name = &self.host.name;
            let what =
                format!("the host {name} has {total} pCPUs, not {asked}; choose 1 to {total}");
            return Err(overlock_results::Error(what));
        }
        job.check_virtual(&NAMES)
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let mut setup = Setup { host: self.host.clone(), seed: job.seed, more: self.more };
        if job.host.slow_wake_ns > 0 {
            setup.host.costs.wake.ns = job.host.slow_wake_ns;
        }
        let lock = job.resolved()?;
        let config = job.config(&lock, cancel);
        match setup.run(&config, &job.profile, lock.built) {
            Ok(_) | Err(Error::Runaway { .. }) if cancel.load(Relaxed) => Err(Failed::Cancelled),
            Ok((run, _)) => Ok(run),
            Err(error @ (Error::Panicked { .. } | Error::Runaway { .. })) => {
                Err(Failed::Subject(error.to_string()))
            }
            Err(error) => Err(Failed::World(error.to_string())),
        }
    }
}
