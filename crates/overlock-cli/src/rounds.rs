//! The one loop that measures, in any world: points of `bench`, and programs of `compare`.
//!
//! Jobs that share a workload form a group and take turns: a *round* is one run of each, in an
//! order shuffled from the seed. Ratios are formed inside a round and only then summarised, so that
//! anything that slows the machine for some time cancels out.

mod pairs;
mod retakes;

use crate::interrupt;
use crate::output::Sink;
use crate::progress::Progress;
use anyhow::{Result, bail};
use overlock_bench::experiment::Plan;
use overlock_bench::{Failed, Job, World};
use overlock_programs::CpuTimes;
use overlock_results::row::{Failure, Pair, Row};
use overlock_results::stats::median;
use overlock_results::{Rng, Run, Takers, seed_of};
use pairs::Pairs;
use retakes::Retakes;

pub(crate) struct Rounds<'a> {
    pub(crate) world: &'a dyn World,
    seed: u64,
    /// How many there are of each group.
    count: usize,
    pub(crate) progress: Progress,
    retakes: Retakes,
    /// How many runs the world has made in advance, less those that were taken.
    made_ahead: u64,
    pairs: Pairs,
    pub(crate) failures: Vec<Failure>,
    /// Why the world can't go on.
    pub(crate) gave_up: Option<String>,
}

pub(crate) struct Taken {
    /// The runs of each job that has not failed, by its place: of whole rounds only.
    pub(crate) runs: Vec<(usize, Vec<Run>)>,
    pub(crate) floor_ns: Option<f64>,
}

/// Takes a run of a round, from 1.
pub(crate) type Made<'a> = &'a mut dyn FnMut(&Job, usize, &Run) -> Result<()>;

impl<'a> Rounds<'a> {
    pub(crate) fn new(plan: &Plan, world: &'a dyn World, seed: u64, progress: Progress) -> Self {
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
    pub(crate) fn ahead(&mut self, plan: &Plan) -> Result<bool> {
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

    pub(crate) fn is_over(&self) -> bool {
        (self.gave_up.is_some() || interrupt::seen()) && self.made_ahead == 0
    }

    /// The job of a round: everything that is drawn is drawn alike for all that take turns in it.
    fn of_round(&self, job: &Job, round: usize) -> Job {
        Job { seed: seed_of(self.seed, round as u64 + 1), ..job.clone() }
    }

    /// Runs all rounds of a group. A job that fails is dropped; where threads run, so is its lock,
    /// at all other points.
    pub(crate) fn take(&mut self, group: &[Job], made: Made<'_>) -> Result<Taken> {
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); group.len()];
        let mut dropped = vec![false; group.len()];
        let mut floors = Vec::new();
        'rounds: for round in 0..self.count {
            self.pairs.sample(self.world, &self.failures)?;
            floors.extend(group.first().and_then(|job| self.floor(job, round)));
            for index in shuffled(group.len(), self.seed, round) {
                let job = self.of_round(&group[index], round);
                self.progress.say(&format!("{} ({}/{})", self.name(&job), round + 1, self.count));
                if !dropped[index] && !self.has_failed(&job) {
                    match self.retakes.least_disturbed(|| once(self.world, &job)) {
                        Ok(run) => {
                            made(&job, round + 1, &run)?;
                            runs[index].push(run);
                        }
                        Err(Failed::Subject(said)) => {
                            dropped[index] = true;
                            self.fail(&job, &said);
                        }
                        Err(Failed::Cancelled) => break 'rounds,
                        Err(Failed::World(said)) => {
                            let why = self.sentence(&job, &said);
                            self.gave_up.get_or_insert(why);
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
        let of = |index: usize| !dropped[index] && !self.has_failed(&group[index]);
        let mut runs: Vec<(usize, Vec<Run>)> = runs.into_iter().enumerate().collect();
        // Only rounds that all have finished whose first one was made.
        runs.retain(|(index, made)| of(*index) && !made.is_empty());
        let whole = runs.iter().map(|(_, made)| made.len()).min().unwrap_or(0);
        runs.iter_mut().for_each(|(_, made)| made.truncate(whole));
        Ok(Taken { runs, floor_ns: median(&floors) })
    }

    /// Times an operation without any lock, in nanoseconds. A busy machine may leave it no time.
    fn floor(&self, job: &Job, round: usize) -> Option<f64> {
        let floor = self.of_round(&self.world.floor(job)?, round);
        let run = self.world.run(&floor, interrupt::flag()).ok()?;
        (run.ops_per_s > 0.0).then(|| 1e9 / run.ops_per_s)
    }

    /// What distinguishes a job here: programs differ in their lock alone.
    fn name(&self, job: &Job) -> String {
        match self.world.takers() {
            Takers::Program => job.lock.clone(),
            _ => job.to_string(),
        }
    }

    /// Runs a job with a timeline after its rounds; returns nothing if it fails or Ctrl-C has come.
    pub(crate) fn timeline(&self, job: &Job) -> Result<Option<Run>> {
        self.progress.say(&format!("{job}, timeline"));
        match self.world.run(&self.of_round(job, self.count), interrupt::flag()) {
            Ok(run) => Ok(Some(run)),
            Err(Failed::World(said)) => bail!("{job}: {said}"),
            Err(Failed::Subject(_) | Failed::Cancelled) => Ok(None),
        }
    }

    /// Ends the measurement: returns the pairs that have samples, and what failed.
    pub(crate) fn end(self, sink: &mut Sink) -> Result<(Vec<Pair>, Vec<Failure>)> {
        let (pairs, failures) = (self.pairs.end(), self.failures);
        pairs.iter().try_for_each(|pair| sink.record(&Row::Pair(pair.clone())))?;
        failures.iter().try_for_each(|of| sink.record(&Row::Failure(of.clone())))?;
        self.gave_up.map_or(Ok((pairs, failures)), |why| bail!(why))
    }

    /// Remembers that a job has failed. The lock itself is at fault, but for vCPUs, whose host may
    /// be.
    pub(crate) fn fail(&mut self, job: &Job, said: &str) {
        let takers = self.world.takers();
        let sentence = match takers {
            Takers::Threads => format!("lock {} at {job}: {said}", job.lock),
            _ => self.sentence(job, said),
        };
        let lock = (!takers.has_host()).then(|| job.lock.clone());
        let point = (takers != Takers::Program).then(|| job.to_string());
        self.failures.push(Failure { lock, point, sentence });
        self.pairs.resume();
    }

    fn sentence(&self, job: &Job, said: &str) -> String {
        match self.world.takers() {
            Takers::Program => said.to_owned(),
            _ => format!("{job}: {said}"),
        }
    }

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

/// Returns `0..len` in the order of a round: random to the machine, the same for the same seed.
fn shuffled(len: usize, seed: u64, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    Rng::new(seed_of(seed, round as u64)).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn a_round_has_every_lock_once_in_an_order_of_its_own() {
        let orders: Vec<_> = (0..20).map(|round| shuffled(12, 7, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(orders[3], shuffled(12, 7, 3));
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(shuffled(12, 8, 3), orders[3]);
    }
}
