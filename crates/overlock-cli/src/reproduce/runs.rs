// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs of an experiment: simulated at its size, or in the laboratory at this machine's.

use super::instructions::{self, Pair};
use super::{QUICK, ReproduceArgs, judge};
use crate::interrupt;
use crate::lab::Run;
use crate::progress::Progress;
use crate::sim::task::Task;
use crate::sim::{self, pool};
use crate::units::three;
use anyhow::{Context, Result, anyhow};
use overlock_sim::performance::{HostProfile, Setup};
use overlock_sim::seed_of;
use overlock_world::experiment::{Experiment, Over, Point, Published};
use overlock_world::locks::Lock;
use overlock_world::{Config, PmTimerRule};
use std::collections::BTreeMap;
use std::time::Duration;

/// Rounds of the laboratory, and seconds of a run: some 80 points within a minute.
const LAB_ROUNDS: u16 = 3;
const LAB_SECONDS: f64 = 0.2;

/// Where runs are made.
pub(super) enum Place<'lab> {
    /// Simulated, in this number of processes.
    Simulator(usize),
    /// On vCPUs that share this number of this machine's CPUs.
    Laboratory(&'lab Run<'static>, u32),
}

/// The runs of an experiment, each made once.
pub(super) struct Runs<'a> {
    experiment: &'a Experiment,
    /// What its locks execute, if figures are about that and it can be counted.
    pub(super) pairs: Vec<Pair>,
    pub(super) host: HostProfile,
    place: Place<'a>,
    seed: u64,
    rounds: u16,
    seconds: f64,
    done: BTreeMap<String, sim::Record>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        place: Place<'a>,
        args: &ReproduceArgs,
    ) -> Result<Self> {
        let host = experiment.host.machine.as_deref().unwrap_or(sim::DEFAULT_HOST);
        let (rounds, seconds) = match place {
            Place::Simulator(_) => (experiment.host.runs, experiment.host.seconds),
            Place::Laboratory(..) => (LAB_ROUNDS, LAB_SECONDS),
        };
        Ok(Self {
            experiment,
            pairs: Vec::new(),
            host: sim::host(host)?,
            seed: args.seed,
            place,
            rounds: if args.quick { 1 } else { rounds },
            seconds: seconds * if args.quick { QUICK } else { 1.0 },
            done: BTreeMap::new(),
        })
    }

    /// Counts what the locks execute, if a figure is about that. What could not be counted is not
    /// judged.
    pub(super) fn count(&mut self) -> Result<()> {
        let simulates = matches!(self.place, Place::Simulator(_));
        if simulates && self.experiment.published.iter().any(instructions::counts) {
            self.pairs = instructions::count(&self.experiment.factors.locks)?;
        }
        Ok(())
    }

    /// The published figures with which ours can be compared.
    pub(super) fn published(&self) -> impl Iterator<Item = &'a Published> {
        let can = |one: &&Published| match (&self.place, instructions::counts(one)) {
            (Place::Simulator(_), true) => !self.pairs.is_empty(),
            (Place::Simulator(_), false) => true,
            (Place::Laboratory(..), true) => false,
            (Place::Laboratory(..), false) => sides(one).iter().all(|over| {
                let lock = over.lock.as_ref().unwrap_or(&one.lock);
                self.cpus(over.cpus.unwrap_or(one.cpus)).is_some()
                    && (!over.seq_cst || sequential(lock).is_some())
            }),
        };
        self.experiment.published.iter().filter(can)
    }

    /// Returns the number of vCPUs that gives the overcommit here that `cpus` give on the host of
    /// the experiment; `None` if that is no whole number.
    pub(super) fn cpus(&self, cpus: u32) -> Option<u32> {
        let Place::Laboratory(_, pcpus) = self.place else { return Some(cpus) };
        let all = cpus * pcpus;
        all.is_multiple_of(self.experiment.host.pcpus).then_some(all / self.experiment.host.pcpus)
    }

    /// Where a figure was measured.
    pub(super) fn at(&self, published: &Published) -> judge::At {
        let (world, pcpus) = match self.place {
            Place::Simulator(_) => (judge::SIMULATED, self.experiment.host.pcpus),
            Place::Laboratory(_, pcpus) => ("kvm", pcpus),
        };
        let cpus = self.cpus(published.cpus).unwrap_or(published.cpus);
        judge::At { world, ours_cpus: cpus, ours_pcpus: pcpus }
    }

    /// Returns the title of the table.
    pub(super) fn heading(&self) -> String {
        let Experiment { name, about, source, host, published, .. } = self.experiment;
        match self.place {
            Place::Simulator(_) => {
                format!("{name}: {about}\n{} pCPUs of {}. {source}", host.pcpus, self.host.name)
            }
            Place::Laboratory(_, pcpus) => {
                let not = published.iter().filter(|one| !instructions::counts(one)).count();
                let not = match not - self.published().count() {
                    0 => String::new(),
                    left => format!(" Left out: {left} figures that can't be had on {pcpus} CPUs."),
                };
                format!(
                    "{name} in the laboratory: {pcpus} CPUs of this machine, {} of {} s.{not}",
                    if self.rounds == 1 {
                        "1 round".into()
                    } else {
                        format!("{} rounds", self.rounds)
                    },
                    three(self.seconds)
                )
            }
        }
    }

    /// Makes all runs that the experiment's figures need.
    pub(super) fn make(&mut self, progress: &Progress) -> Result<()> {
        let mut tasks = BTreeMap::new();
        for published in self.published().filter(|one| !instructions::counts(one)) {
            for over in sides(published) {
                for (round, task) in self.tasks(published, &over)?.into_iter().enumerate() {
                    // Round by round: what is compared runs within seconds.
                    tasks.insert((round, task.key()?), task);
                }
            }
        }
        let tasks: Vec<&Task> = tasks.values().collect();
        progress.more(tasks.len() as u64);
        let name = &self.experiment.name;
        let done = &mut self.done;
        let mut take = |task: &Task, ran: crate::lab::Ran| {
            progress.say(&format!("{name}: {}", task.name()));
            progress.step();
            let record = ran.map_err(|said| anyhow!("{}: {said}", task.name()))?;
            done.insert(task.key()?, record);
            Ok(())
        };
        match self.place {
            Place::Simulator(jobs) => pool::run(&tasks, jobs, take),
            Place::Laboratory(run, _) => tasks.into_iter().try_for_each(|task| {
                if interrupt::seen() {
                    return Ok(());
                }
                take(task, task.run_by(run)?)
            }),
        }
    }

    /// Returns a figure's value in each round, over its base, without the rounds whose base is
    /// zero.
    pub(super) fn figures(&self, published: &Published) -> Result<Vec<f64>> {
        let own = self.values(published, &Over::default())?;
        let Some(over) = &published.over else { return Ok(own) };
        let base = self.values(published, over)?;
        Ok(ratios(&own, &base, instructions::counts(published)))
    }

    fn values(&self, published: &Published, over: &Over) -> Result<Vec<f64>> {
        if instructions::counts(published) {
            let lock = over.lock.as_ref().unwrap_or(&published.lock);
            return Ok(vec![instructions::value(&self.pairs, lock, &published.figure)?]);
        }
        let records = self.records(published, over)?;
        let profiles = self.experiment.profiles()?;
        let sections = profiles.first().map_or(0, |profile| profile.sections);
        let values = |records: &[&sim::Record]| judge::values(records, sections, &published.figure);
        let mut found =
            values(&records).with_context(|| format!("there is no figure {}", published.figure))?;
        if published.figure == judge::TIMER_WAIT_SHARE {
            let free = values(&self.records(published, &without_lock(over))?);
            for (value, free) in found.iter_mut().zip(free.unwrap_or_default()) {
                *value = (*value - free).max(0.0);
            }
        }
        Ok(found)
    }

    /// Returns the runs of the point that `published` describes, except for what `over` replaces.
    fn records(&self, published: &Published, over: &Over) -> Result<Vec<&sim::Record>> {
        let made = |task: &Task| {
            let record = self.done.get(&task.key()?);
            record.with_context(|| format!("{}: has not been run", task.name()))
        };
        self.tasks(published, over)?.iter().map(made).collect()
    }

    /// Returns the same runs as tasks.
    fn tasks(&self, published: &Published, over: &Over) -> Result<Vec<Task>> {
        let lock = over.lock.as_ref().unwrap_or(&published.lock);
        let policy = over.policy.as_ref().unwrap_or(&published.policy);
        let cpus = over.cpus.unwrap_or(published.cpus);
        let timer = over.timer.or(published.timer);
        let think = published.think_ns;
        let is_it = |point: &Point| {
            (&point.lock.name, &point.policy, point.cpus) == (lock, policy, cpus)
                && timer.is_none_or(|timer| point.timer == timer)
                && think.is_none_or(|ns| point.profile.think_ns == ns)
        };
        let point = self.experiment.points().find(is_it);
        let point = point.with_context(|| {
            format!("{}: no point has the published {}", self.experiment.name, published.figure)
        })?;
        let (lock, seq_cst) = match self.place {
            Place::Laboratory(..) if over.seq_cst => {
                (sequential(lock).context("no sequentially consistent lock of that name")?, false)
            }
            _ => (point.lock.built, over.seq_cst),
        };
        let (vcpus, pcpus) = match self.place {
            Place::Simulator(_) => (point.cpus, self.experiment.host.pcpus),
            Place::Laboratory(_, pcpus) => {
                (self.cpus(point.cpus).context("an overcommit that these CPUs can't have")?, pcpus)
            }
        };
        let task = |round: u16| {
            // The same chance for all points of a round.
            let seed = seed_of(self.seed, round.into());
            let setup = Setup { host: self.host.clone(), seed, seq_cst };
            let config = Config {
                vcpus,
                pcpus,
                duration: Duration::from_secs_f64(self.seconds),
                ..self.experiment.config(&point)
            };
            Task::new(&setup, &config, &point.profile, lock)
        };
        Ok((0..self.rounds).map(task).collect())
    }
}

/// One over the other in each round in which that is a number, or the other over the one where less
/// is better.
fn ratios(own: &[f64], base: &[f64], less_is_better: bool) -> Vec<f64> {
    let ratio = |(own, base): (&f64, &f64)| if less_is_better { base / own } else { own / base };
    own.iter().zip(base).map(ratio).filter(|ratio| ratio.is_finite()).collect()
}

/// Returns the points that a figure needs.
fn sides(published: &Published) -> Vec<Over> {
    let mut sides: Vec<Over> =
        [Some(Over::default()), published.over.clone()].into_iter().flatten().collect();
    if published.figure == judge::TIMER_WAIT_SHARE {
        sides.extend(sides.clone().iter().map(without_lock));
    }
    sides
}

/// Returns the same point where no vCPU waits for another.
fn without_lock(over: &Over) -> Over {
    Over { timer: Some(PmTimerRule::LockFree), ..over.clone() }
}

/// The same lock with sequentially consistent accesses, for worlds that can't charge for them.
fn sequential(lock: &str) -> Option<&'static str> {
    Lock::named(&format!("sequential-{lock}")).map(|lock| lock.built)
}

#[cfg(test)]
mod tests {
    use super::ratios;

    #[test]
    fn what_has_no_base_is_no_ratio() {
        assert_eq!(ratios(&[1.0, 0.0, 3.0, 0.0], &[2.0, 0.0, 0.0, 4.0], false), [0.5, 0.0]);
        assert_eq!(ratios(&[4.0], &[2.0], true), [0.5]);
        assert!(ratios(&[1.0], &[0.0], false).is_empty());
    }
}
