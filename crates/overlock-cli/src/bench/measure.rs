// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one loop that measures, in any world.
//!
//! Jobs that share a workload form a group and take turns: a *round* is one run of each, in an
//! order shuffled from the seed. Ratios are formed inside a round and only then summarised, so that
//! anything that slows the machine for some time cancels out.

use super::{BenchArgs, explain, tables};
use crate::interrupt;
use crate::output::Sink;
use crate::progress::Progress;
use crate::shuffle::shuffled;
use crate::warnings::DISTURBED;
use anyhow::{Result, bail};
use overlock_process::CpuTimes;
use overlock_world::experiment::{Experiment, Plan};
use overlock_world::row::{Failure, Pair, Point, Row, TimelineRow, relate};
use overlock_world::stats::{Interval, median, unique};
use overlock_world::{Failed, Job, Run, World, seed_of};

/// How many samples of each lock's uncontended pair are taken, at least.
const PAIR_SAMPLES: usize = 200;

/// How often one run may be repeated. All repetitions together may add at most half of the planned
/// runs.
const RETAKES: u32 = 2;

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) points: Vec<Point>,
    pub(super) pairs: Vec<Pair>,
    pub(super) failures: Vec<Failure>,
    /// Whether only a part of a sweep was made, and there is nothing to tell.
    pub(super) is_a_part: bool,
}

/// A measurement under way.
struct Loop<'a> {
    world: &'a dyn World,
    args: &'a BenchArgs,
    seed: u64,
    plan: Plan,
    progress: Progress,
    /// How many more runs may be repeated.
    retakes: u32,
    /// How many runs the world has made in advance, less those that were taken.
    made_ahead: u64,
    /// Whether timing uncontended pairs has failed since a lock was last dropped.
    no_pairs: bool,
    /// Why the world can't go on.
    gave_up: Option<String>,
    measured: Measured,
}

/// Measures an experiment, and reports each group as soon as it is done. On Ctrl-C it stops early,
/// and keeps the whole rounds of each group.
pub(super) fn all(
    experiment: &Experiment,
    args: &BenchArgs,
    world: &dyn World,
    seed: u64,
    sink: &mut Sink,
) -> Result<Measured> {
    let progress = Progress::new(0);
    progress.say("starts");
    let planned = experiment.plan(world, seed, |job| {
        progress.say("how many hand-overs there can be");
        Ok(world.run(job, interrupt::flag())?.ops_per_s)
    });
    let mut plan = match planned {
        Ok(plan) => plan,
        Err(Failed::Cancelled) => return Ok(Measured::default()),
        Err(failed) => bail!("{failed}"),
    };
    for job in plan.groups.iter_mut().flatten() {
        (job.logged, job.counted) = (args.explain, args.explain);
    }
    let runs = plan.jobs().count() as u64 * u64::from(plan.rounds);
    progress.more(runs);
    let retakes = u32::try_from(runs / 2).unwrap_or(u32::MAX);
    let mut looped = Loop {
        world,
        args,
        seed,
        plan,
        progress,
        retakes,
        made_ahead: 0,
        no_pairs: false,
        gave_up: None,
        measured: Measured::default(),
    };
    let done = looped.measure(sink);
    looped.progress.finish();
    done.map(|()| looped.measured)
}

impl Loop<'_> {
    fn measure(&mut self, sink: &mut Sink) -> Result<()> {
        if !self.ahead()? {
            self.measured.is_a_part = true;
            return Ok(());
        }
        let names = self.plan.jobs().map(|job| job.lock.clone());
        let none = |lock| Pair { lock, ns: None, samples: Vec::new() };
        self.measured.pairs = unique(names).into_iter().map(none).collect();
        for number in 0..self.plan.groups.len() {
            let group = self.plan.groups[number].clone();
            let points = self.group(&group, sink)?;
            if !points.is_empty() {
                let is_first = self.measured.points.is_empty();
                let text = tables::group(&points, self.world, is_first, self.is_long());
                self.progress.suspend(|| -> Result<()> {
                    for point in &points {
                        sink.row(&Row::Point(Box::new(point.clone())))?;
                    }
                    sink.people(&text)?;
                    if self.args.explain && self.world.has_host() {
                        sink.people(&explain::text(&points))?;
                    }
                    Ok(())
                })?;
                self.measured.points.extend(points);
            }
            if self.is_over() {
                break;
            }
        }
        self.measured.pairs.retain(|pair| !pair.samples.is_empty());
        for pair in &mut self.measured.pairs {
            pair.ns = Interval::of(&pair.samples);
            sink.row(&Row::Pair(pair.clone()))?;
        }
        self.measured.failures.iter().try_for_each(|of| sink.row(&Row::Failure(of.clone())))?;
        match self.gave_up.take() {
            Some(why) => bail!(why),
            None => Ok(()),
        }
    }

    /// Whether no more can be measured. What was made in advance can still be taken.
    fn is_over(&self) -> bool {
        (self.gave_up.is_some() || interrupt::seen()) && self.made_ahead == 0
    }

    /// Whether each point gets a line instead of a table: there are many, and nobody named them.
    fn is_long(&self) -> bool {
        !self.world.has_host() && self.plan.groups.len() > 8 && !self.args.explain
    }

    /// Lets the world make the runs in advance, if it likes. Returns whether there will be results.
    fn ahead(&mut self) -> Result<bool> {
        let mut jobs = Vec::new();
        for round in 0..usize::from(self.plan.rounds) {
            jobs.extend(self.plan.jobs().map(|job| self.of_round(job, round)));
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

    /// The job of a round: everything that is drawn is drawn alike for all that take turns in it.
    fn of_round(&self, job: &Job, round: usize) -> Job {
        Job { seed: seed_of(self.seed, round as u64 + 1), ..job.clone() }
    }

    /// Measures all rounds of a group. A point that fails is dropped; where threads run, so is its
    /// lock, at all other points.
    fn group(&mut self, group: &[Job], sink: &mut Sink) -> Result<Vec<Point>> {
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); group.len()];
        let mut dropped = vec![false; group.len()];
        let mut floors = Vec::new();
        'rounds: for round in 0..usize::from(self.plan.rounds) {
            self.pairs()?;
            if let Some(floor) = group.first().and_then(|job| self.world.floor(job)) {
                let floor = self.of_round(&floor, round);
                let run = self.world.run(&floor, interrupt::flag());
                floors.extend(run.ok().map(|run| 1e9 / run.ops_per_s));
            }
            for index in shuffled(group.len(), self.seed, round) {
                let job = self.of_round(&group[index], round);
                self.progress.say(&format!("{job} ({}/{})", round + 1, self.plan.rounds));
                if !dropped[index] && !self.has_failed(&job) {
                    match self.run(&job) {
                        Ok(run) => runs[index].push(run),
                        Err(Failed::Subject(said)) => {
                            dropped[index] = true;
                            self.no_pairs = false;
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
        let failed: Vec<bool> = group.iter().map(|job| self.has_failed(job)).collect();
        let keeps = |index: &usize| !dropped[*index] && !failed[*index];
        let kept: Vec<usize> = (0..group.len()).filter(keeps).collect();
        // Only rounds that all have finished whose first one was made.
        let made: Vec<usize> = kept.into_iter().filter(|index| !runs[*index].is_empty()).collect();
        let whole = made.iter().map(|index| runs[*index].len()).min().unwrap_or(0);
        let floor_ns = median(&floors);
        let mut points = Vec::new();
        for index in made {
            let job = &group[index];
            let mut samples = std::mem::take(&mut runs[index]);
            samples.truncate(whole);
            let point = Point::of_runs(self.world.name(), self.world.has_host(), job, samples);
            points.push(Point { floor_ns, ..point });
            self.timeline(job, points.last(), sink)?;
        }
        relate(&mut points);
        if self.args.explain && self.world.has_host() {
            for point in &mut points {
                point.explanation = explain::sentences(point);
            }
        }
        Ok(points)
    }

    /// Runs a job once, and again if the hypervisor or other processes took too much of the time
    /// during the run: of three runs, the least disturbed is kept.
    fn run(&mut self, job: &Job) -> Result<Run, Failed> {
        let mut best: Option<Run> = None;
        for retaken in 0..=RETAKES {
            let before = self.world.is_real().then(CpuTimes::now);
            let mut run = self.world.run(job, interrupt::flag())?;
            if let Some(before) = before.filter(|_| run.steal == 0.0) {
                run.steal = CpuTimes::now().since(before).steal_share();
            }
            let taken = run.disturbance;
            if best.as_ref().is_none_or(|best| taken < best.disturbance) {
                best = Some(Run { retaken, ..run });
            }
            if taken <= DISTURBED || self.retakes == 0 || interrupt::seen() {
                break;
            }
            self.retakes -= 1;
        }
        best.ok_or(Failed::Cancelled)
    }

    /// Times the uncontended pairs of all locks that have not failed: a share in each round of each
    /// group. What slows a core for some seconds, and the locks unequally, then spoils only some of
    /// the samples. If a pair ends the process or hangs, no more are timed until a lock has failed
    /// in a run, and is dropped.
    fn pairs(&mut self) -> Result<()> {
        if self.no_pairs || interrupt::seen() {
            return Ok(());
        }
        let failures = &self.measured.failures;
        let has_failed = |lock: &str| failures.iter().any(|of| of.lock.as_deref() == Some(lock));
        let pairs = self.measured.pairs.iter_mut().filter(|pair| !has_failed(&pair.lock));
        let mut pairs: Vec<&mut Pair> = pairs.collect();
        let locks: Vec<String> = pairs.iter().map(|pair| pair.lock.clone()).collect();
        let locks: Vec<&str> = locks.iter().map(String::as_str).collect();
        let rounds = self.plan.groups.len() * usize::from(self.plan.rounds);
        match self.world.pairs(&locks, PAIR_SAMPLES.div_ceil(rounds.max(1)), interrupt::flag()) {
            Ok(Some(samples)) => {
                pairs.iter_mut().zip(samples).for_each(|(pair, new)| pair.samples.extend(new));
            }
            Ok(None) | Err(Failed::Subject(_)) => self.no_pairs = true,
            Err(Failed::Cancelled) => {}
            Err(Failed::World(said)) => bail!("{said}"),
        }
        Ok(())
    }

    /// Runs a job once more for its timeline, if one was asked for. Nothing else is taken from that
    /// run, because recording takes time.
    fn timeline(&self, job: &Job, point: Option<&Point>, sink: &mut Sink) -> Result<()> {
        let Some(span) = self.args.timeline.filter(|_| self.world.has_host()) else {
            return Ok(());
        };
        self.progress.say(&format!("{job}, timeline"));
        let job = Job { timeline_ns: span.0, ..self.of_round(job, usize::from(self.plan.rounds)) };
        let run = match self.world.run(&job, interrupt::flag()) {
            Ok(run) => run,
            Err(Failed::World(said)) => bail!("{job}: {said}"),
            Err(Failed::Subject(_) | Failed::Cancelled) => return Ok(()),
        };
        let Some(timeline) = run.timeline else { return Ok(()) };
        let stints = timeline.stints.into_iter();
        let holds = timeline.holds.into_iter();
        sink.row(&Row::Timeline(Box::new(TimelineRow {
            world: self.world.name().to_owned(),
            workload: job.profile.name.clone(),
            lock: job.lock.clone(),
            policy: job.policy.clone(),
            cpus: job.cpus,
            pcpus: job.host.pcpus,
            cs_ns: job.profile.section_ns,
            ncs_ns: job.profile.think_ns,
            speed: point.map(Point::ops).filter(|ops| *ops > 0.0).map(|ops| run.ops_per_s / ops),
            from_ns: timeline.from_ns,
            to_ns: timeline.to_ns,
            stints: stints.map(|(v, name, p, from, to)| (v, name.into(), p, from, to)).collect(),
            holds: holds
                .map(|(v, l, asked, taken, until)| (v, l, asked, Some(taken), Some(until)))
                .collect(),
        })))
    }

    fn fail(&mut self, job: &Job, said: &str) {
        let lock = job.lock.clone();
        let is_lock = !self.world.has_host();
        let sentence = match is_lock {
            true => format!("lock {lock} at {job}: {said}"),
            false => format!("{job}: {said}"),
        };
        let lock = is_lock.then_some(lock);
        self.measured.failures.push(Failure { lock, point: Some(job.to_string()), sentence });
    }

    /// Whether the lock has done something that no lock may do, anywhere.
    fn has_failed(&self, job: &Job) -> bool {
        let failures = &self.measured.failures;
        failures.iter().any(|of| of.lock.as_deref() == Some(&*job.lock))
    }
}
