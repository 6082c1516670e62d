// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: it runs experiments of `overlock-world` on a simulated host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use overlock_host::sched::yield_to::Tally;
use overlock_world::workload::{self, Profile};
use overlock_world::{Config, Engine, Outcome, Program, Record};
use serde::{Serialize, Serializer};

use super::Error;
use super::host_profile::HostProfile;
use super::machine::calls::{self, Hosted};
use super::machine::{Counts, Machine};
use super::memory::Turn;
use super::timer::Timer;
use super::world::{Simulated, Tables};

thread_local! {
    static SETUP: RefCell<Option<(Setup, Counts)>> = const { RefCell::new(None) };
}

/// A host and a seed. Given these, a simulation is a function of the experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The host.
    pub host: HostProfile,
    /// The seed of all randomness.
    pub seed: u64,
    /// Whether each read-modify-write costs as much as a sequentially consistent one, which shows
    /// what the locks' weaker orderings are worth on the host.
    pub seq_cst: bool,
}

impl Setup {
    /// Runs `profile` under the lock called `lock`, or
    /// [`HAND_OVER`](overlock_world::locks::HAND_OVER), as [`workload::run`] does.
    ///
    /// # Errors
    /// Those of [`workload::run`]; a host that is too small; a program that panics or does not
    /// stop.
    pub fn run(
        &self,
        config: &Config,
        profile: &Profile,
        lock: &str,
    ) -> Result<(Record<Yields>, Counts), Error> {
        self.during(|| workload::run::<Simulation>(config, profile, lock))
    }

    /// Runs any program, as [`Engine::run`] does.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_program<P: Program<Simulated>>(
        &self,
        config: &Config,
        program: &P,
    ) -> Result<(Outcome<Yields>, Counts), Error> {
        self.during(|| Simulation::run(config, program))
    }

    fn during<T>(&self, run: impl FnOnce() -> Result<T, Error>) -> Result<(T, Counts), Error> {
        let _turn = Turn::take();
        SETUP.set(Some((self.clone(), Counts::default())));
        let result = run();
        let counts = SETUP.take().map(|(_, counts)| counts).unwrap_or_default();
        Ok((result?, counts))
    }
}

/// What the yield policy of a run did, and why.
#[derive(Clone, Debug, Default)]
pub struct Yields(pub Tally);

impl overlock_world::Yields for Yields {
    fn codes(&self) -> BTreeMap<String, u64> {
        self.0.reasons().map(|(kind, why, count)| (format!("{kind}:{why}"), count)).collect()
    }

    fn hits(&self) -> u64 {
        self.0.hits()
    }
}

impl Serialize for Yields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        overlock_world::Yields::codes(self).serialize(serializer)
    }
}

/// The engine. It runs what [`Setup::run`] asks for, and nothing on its own.
#[derive(Debug)]
pub struct Simulation;

impl Engine for Simulation {
    type World = Simulated;
    type Error = Error;
    type Yields = Yields;
    const NAME: &'static str = "sim";

    fn availability() -> Result<(), Error> {
        Ok(())
    }

    fn wake_ns() -> Option<u64> {
        SETUP.with_borrow(|setup| setup.as_ref().map(|(setup, _)| setup.host.wake_ns()))
    }

    fn run<P: Program<Simulated>>(config: &Config, program: &P) -> Result<Outcome<Yields>, Error> {
        config.check()?;
        let setup = SETUP.with_borrow(|setup| setup.as_ref().map(|(setup, _)| setup.clone()));
        let setup = setup.ok_or_else(|| Error::Config("a simulation needs a host".into()))?;
        let (timer, tables) = (Timer::new(config.pm_timer), Tables::new(config.vcpus));
        let guest = Hosted(program);
        let mut machine = Machine::new(&setup, config, &guest, (&timer, &tables))?;
        let ran = calls::enter(&mut machine);
        if let Err((vcpu, message)) = ran {
            return Err(Error::Panicked { vcpu, message });
        }
        let stuck = machine.stuck();
        if !stuck.is_empty() {
            return Err(Error::Runaway { grace: config.grace, stuck });
        }
        let (vcpus, yields) = machine.books();
        let counts = machine.counts();
        SETUP.with_borrow_mut(|setup| {
            if let Some((_, sum)) = setup {
                sum.add(counts);
            }
        });
        let ended_ns = machine.stop_at;
        let ran = Duration::from_nanos(ended_ns);
        Ok(Outcome { ran, ended_ns, vcpus, yields: Yields(yields) })
    }
}
