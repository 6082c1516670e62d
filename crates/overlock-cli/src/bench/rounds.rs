// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one loop that measures, in any world.
//!
//! Jobs that share a workload form a group and take turns: a *round* is one run of each, in an
//! order shuffled from the seed. Ratios are formed inside a round and only then summarised, so that
//! anything that slows the machine for some time cancels out.

use super::pairs::Pairs;
use super::retakes::Retakes;
use crate::interrupt;
use crate::progress::Progress;
use crate::shuffle::shuffled;
use anyhow::{Result, bail};
use overlock_bench::experiment::Plan;
use overlock_bench::{Failed, Job, World};
use overlock_programs::CpuTimes;
use overlock_results::row::Failure;
use overlock_results::stats::median;
use overlock_results::{Run, seed_of};

pub(super) struct Rounds<'a> {
    pub(super) world: &'a dyn World,
    seed: u64,
    /// How many there are of each group.
    count: usize,
    pub(super) progress: Progress,
    retakes: Retakes,
    /// How many runs the world has made in advance, less those that were taken.
    made_ahead: u64,
    pub(super) pairs: Pairs,
    pub(super) failures: Vec<Failure>,
    /// Why the world can't go on.
    pub(super) gave_up: Option<String>,
}

/// What was taken of a group.
pub(super) struct Taken {
    /// The runs of each job that has not failed, by its place: of whole rounds only.
    pub(super) runs: Vec<(usize, Vec<Run>)>,
    /// Nanoseconds of an operation without any lock.
    pub(super) floor_ns: Option<f64>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(plan: &Plan, world: &'a dyn World, seed: u64, progress: Progress) -> Self {
        let runs = plan.jobs().count() as u64 * u64::from(plan.rounds);
        progress.more(runs);
        Rounds {
            world,
            seed,
            count: plan.rounds.into(),
            progress,
            retakes: Retakes::new(runs),
            made_ahead: 0,
            pairs: Pairs::new(plan),
            failures: Vec::new(),
            gave_up: None,
        }
    }

    /// Lets the world make the runs in advance, if it likes. Returns whether there will be results.
    pub(super) fn ahead(&mut self, plan: &Plan) -> Result<bool> {
        let mut jobs = Vec::new();
        for round in 0..self.count {
            jobs.extend(plan.jobs().map(|job| self.of_round(job, round)));
        }
        let (progress, made) = (&self.progress, &mut self.made_ahead);
        let mut tell = |said: &str, runs: u64| {
            progress.say(said);
            (0..runs).for_each(|_| progress.step());
            *made += runs;
        };
        match self.world.ahead(&jobs, interrupt::flag(), &mut tell) {
            Ok(whole) => Ok(whole),
            Err(Failed::Cancelled) => Ok(false),
            Err(failed) => bail!("{failed}"),
        }
    }

    /// Whether no more can be measured. What was made in advance can still be taken.
    pub(super) fn is_over(&self) -> bool {
        (self.gave_up.is_some() || interrupt::seen()) && self.made_ahead == 0
    }

    /// The job of a round: everything that is drawn is drawn alike for all that take turns in it.
    fn of_round(&self, job: &Job, round: usize) -> Job {
        Job { seed: seed_of(self.seed, round as u64 + 1), ..job.clone() }
    }

    /// Runs all rounds of a group. A job that fails is dropped; where threads run, so is its lock,
    /// at all other points.
    pub(super) fn take(&mut self, group: &[Job]) -> Result<Taken> {
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); group.len()];
        let mut dropped = vec![false; group.len()];
        let mut floors = Vec::new();
        'rounds: for round in 0..self.count {
            self.pairs.sample(self.world, &self.failures)?;
            if let Some(floor) = group.first().and_then(|job| self.world.floor(job)) {
                let floor = self.of_round(&floor, round);
                let run = self.world.run(&floor, interrupt::flag());
                // A busy machine may leave it no time at all.
                let run = run.ok().filter(|run| run.ops_per_s > 0.0);
                floors.extend(run.map(|run| 1e9 / run.ops_per_s));
            }
            for index in shuffled(group.len(), self.seed, round) {
                let job = self.of_round(&group[index], round);
                self.progress.say(&format!("{job} ({}/{})", round + 1, self.count));
                if !dropped[index] && !self.has_failed(&job) {
                    match self.retakes.least_disturbed(|| once(self.world, &job)) {
                        Ok(run) => runs[index].push(run),
                        Err(Failed::Subject(said)) => {
                            dropped[index] = true;
                            self.fail(&job, &said);
                        }
                        Err(Failed::Cancelled) => break 'rounds,
                        Err(Failed::World(said)) => {
                            self.gave_up.get_or_insert_with(|| format!("{job}: {said}"));
                            match self.made_ahead {
                                0 => break 'rounds,
                                _ => continue,
                            }
                        }
                    }
                }
                match self.made_ahead.checked_sub(1) {
                    // Its step was made when it was.
                    Some(left) => self.made_ahead = left,
                    None => self.progress.step(),
                }
                if self.is_over() {
                    break 'rounds;
                }
            }
        }
        let mut runs: Vec<(usize, Vec<Run>)> = runs.into_iter().enumerate().collect();
        // Only rounds that all have finished whose first one was made.
        runs.retain(|(index, made)| {
            !dropped[*index] && !self.has_failed(&group[*index]) && !made.is_empty()
        });
        let whole = runs.iter().map(|(_, made)| made.len()).min().unwrap_or(0);
        runs.iter_mut().for_each(|(_, made)| made.truncate(whole));
        Ok(Taken { runs, floor_ns: median(&floors) })
    }

    /// Runs a job with a timeline after its rounds; returns nothing if it fails or Ctrl-C has come.
    pub(super) fn timeline(&self, job: &Job) -> Result<Option<Run>> {
        self.progress.say(&format!("{job}, timeline"));
        match self.world.run(&self.of_round(job, self.count), interrupt::flag()) {
            Ok(run) => Ok(Some(run)),
            Err(Failed::World(said)) => bail!("{job}: {said}"),
            Err(Failed::Subject(_) | Failed::Cancelled) => Ok(None),
        }
    }

    fn fail(&mut self, job: &Job, said: &str) {
        let is_lock = !self.world.has_host();
        let sentence = match is_lock {
            true => format!("lock {} at {job}: {said}", job.lock),
            false => format!("{job}: {said}"),
        };
        let lock = is_lock.then(|| job.lock.clone());
        self.failures.push(Failure { lock, point: Some(job.to_string()), sentence });
        self.pairs.resume();
    }

    /// Whether the lock has done something that no lock may do, anywhere.
    fn has_failed(&self, job: &Job) -> bool {
        self.failures.iter().any(|of| of.lock.as_deref() == Some(&*job.lock))
    }
}

/// Runs a job once. What a real world says nothing of, the hypervisor took from the whole machine.
fn once(world: &dyn World, job: &Job) -> Result<Run, Failed> {
    let before = world.is_real().then(CpuTimes::now);
    let mut run = world.run(job, interrupt::flag())?;
    if let Some(before) = before.filter(|_| run.steal == 0.0) {
        run.steal = CpuTimes::now().since(before).steal_share();
    }
    Ok(run)
}
