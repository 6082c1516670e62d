// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock bench`: locks × threads × critical sections × pauses, interleaved.
//!
//! For each point the locks take turns: a *round* is one run of every lock in an order shuffled
//! from the seed. Ratios are formed inside a round and only then summarised, so that anything that
//! slows the machine for some time cancels out.

mod advice;
mod check;
mod explain;
mod grid;
mod random;
mod report;
mod results;
mod summary;

use crate::Outcome;
use crate::args::BenchArgs;
use crate::machine::Machine;
use crate::output::Sink;
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::shuffle::shuffled;
use crate::warnings::Warning;
use crate::{interrupt, sys};
use anyhow::Result;
use grid::{Plan, Point};
use overlock_bench::{Ended, FLOOR, Mix, RunSample, RunSpec, Work};
use overlock_world::clock::Stamps;
use overlock_world::seed_of;
use results::{DISTURBED, Failure, LockRuns, Pair, PointRuns, Results};
use std::time::SystemTime;

pub(crate) use grid::Phase;

/// How many samples of each lock's uncontended pair are taken, at least.
const PAIR_SAMPLES: usize = 200;

/// How long each round times the loop without a lock: thousands of the longest operations.
const FLOOR_SECONDS: f64 = 0.02;

/// How often one run may be repeated. All repetitions together may add at most half of the planned
/// time.
const RETAKES: usize = 2;

/// Runs the sub-command.
pub(crate) fn main(args: &BenchArgs) -> Result<Outcome> {
    let plan = Plan::new(args, sys::allowed_cpus(), grid::day(SystemTime::now()))?;
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let clock = Stamps::calibrate();
    let work = Work::calibrate(&clock);
    let machine = Machine::observe(&clock);
    sink.record(&RunRecord::new(&machine, plan.seed))?;
    if let Some(warning) = Warning::busy_machine(&machine) {
        warning.print();
    }

    if args.seed.is_none() {
        sink.people(&format!("Seed of the day: {} (--seed {0} repeats it)\n", plan.seed))?;
    }
    let retakes = plan.runs() / 2;
    let results = Results::new(machine);
    let mut bench = Bench { plan, clock, work, retakes, no_pairs: false, results };
    bench.measure(&mut sink)?;
    let results = bench.results;
    report::finish(&results, &mut sink)?;
    for warning in results.warnings(work, Work::calibrate(&clock)) {
        warning.print();
    }
    interrupt::tell(!results.points.is_empty());
    let bounds_hold = !args.check || interrupt::seen() || check::all(&results, &mut sink)?;
    sink.end(if interrupt::seen() {
        Outcome::Interrupted
    } else if results.failures.is_empty() && bounds_hold {
        Outcome::Fine
    } else {
        Outcome::CheckFailed
    })
}

/// A benchmark under way.
struct Bench {
    plan: Plan,
    clock: Stamps,
    work: Work,
    /// How many more runs may be repeated.
    retakes: usize,
    /// Whether timing uncontended pairs has failed since a lock was last dropped.
    no_pairs: bool,
    results: Results,
}

impl Bench {
    /// Measures everything in the plan. On Ctrl-C it stops early, and keeps the whole rounds of
    /// each point and all pairs.
    fn measure(&mut self, sink: &mut Sink) -> Result<()> {
        self.results.pairs = self.plan.locks.iter().map(|lock| Pair::new(lock)).collect();
        let measured = self.measure_points(sink);
        self.results.pairs.retain(|pair| !pair.samples.is_empty());
        let pairs = self.results.pairs.iter().try_for_each(|pair| sink.record(&pair.record()));
        measured.and(pairs)
    }

    fn measure_points(&mut self, sink: &mut Sink) -> Result<()> {
        let mut progress = Progress::new(self.plan.runs() as u64);
        let rows = self.plan.rows;
        for point in self.plan.points.clone() {
            let runs = self.measure_point(point, &mut progress)?;
            if !runs.locks.is_empty() {
                progress.suspend(|| report::point(&runs, &self.results, rows, sink))?;
                self.results.points.push(runs);
            }
            if interrupt::seen() {
                break;
            }
        }
        progress.finish();
        Ok(())
    }

    /// Times the uncontended pairs of all locks that have not failed: a share in each round of each
    /// point. What slows a core for some seconds, and the locks unequally, then spoils only some of
    /// the samples. If a pair ends the process or hangs, no more are timed until a lock has failed
    /// in a run, and is dropped.
    fn measure_pairs(&mut self) -> Result<()> {
        if self.no_pairs {
            return Ok(());
        }
        let Results { pairs, failures, .. } = &mut self.results;
        let has_failed = |lock| failures.iter().any(|failure| failure.lock == lock);
        let mut pairs: Vec<_> = pairs.iter_mut().filter(|it| !has_failed(it.lock.name)).collect();
        let locks: Vec<_> = pairs.iter().map(|pair| pair.lock).collect();
        let samples = PAIR_SAMPLES.div_ceil(self.plan.points.len() * self.plan.rounds);
        match overlock_bench::pairs(&locks, samples, self.clock, interrupt::flag())? {
            Ended::Well(samples) => {
                pairs.iter_mut().zip(samples).for_each(|(pair, new)| pair.samples.extend(new));
            }
            Ended::Badly(_) => self.no_pairs = true,
            Ended::Interrupted => {}
        }
        Ok(())
    }

    /// Measures all rounds of one point. A lock that fails is dropped, at this point and all
    /// others.
    fn measure_point(&mut self, point: Point, progress: &mut Progress) -> Result<PointRuns> {
        let mut locks: Vec<LockRuns> =
            self.plan.locks.iter().map(|lock| LockRuns::new(lock)).collect();
        let mut floors = Vec::new();
        'rounds: for round in 0..self.plan.rounds {
            progress.say("uncontended pairs");
            self.measure_pairs()?;
            floors.extend(self.measure_floor(point, round)?);
            for index in shuffled(locks.len(), self.plan.seed, round) {
                let name = locks[index].lock.name;
                progress.say(&format!("{point}: {name} ({}/{})", round + 1, self.plan.rounds));
                if !self.results.has_failed(name) {
                    let sample = self.measure_run(name, point, round)?;
                    locks[index].samples.extend(sample);
                }
                if self.plan.explained && !self.results.has_failed(name) {
                    let spec = RunSpec { logged: true, ..self.spec(name, point, round) };
                    locks[index].logged.extend(self.run(name, point, spec)?);
                }
                if interrupt::seen() {
                    break 'rounds;
                }
                progress.step();
            }
        }
        locks.retain(|runs| !self.results.has_failed(runs.lock.name));
        Ok(PointRuns::whole_rounds(point, &floors, locks))
    }

    /// Runs one lock once, and again if the hypervisor or other processes took too much of the time
    /// during the run: of three runs, the least disturbed is kept.
    fn measure_run(
        &mut self,
        lock: &'static str,
        point: Point,
        round: usize,
    ) -> Result<Option<RunSample>> {
        let mut best: Option<RunSample> = None;
        for attempt in 0..=RETAKES {
            let Some(sample) = self.run(lock, point, self.spec(lock, point, round))? else {
                return Ok(None);
            };
            let taken = sample.disturbance;
            if best.as_ref().is_none_or(|best| taken < best.disturbance) {
                best = Some(RunSample { retaken: attempt, ..sample });
            }
            if taken <= DISTURBED || self.retakes == 0 || interrupt::seen() {
                break;
            }
            self.retakes -= 1;
        }
        Ok(best)
    }

    /// Runs `spec` in a child process; returns nothing if the lock failed or the run was cut short.
    fn run(
        &mut self,
        lock: &'static str,
        point: Point,
        spec: RunSpec,
    ) -> Result<Option<RunSample>> {
        let failure = match overlock_bench::run(spec, interrupt::flag())? {
            Ended::Well(sample) if sample.lost_updates == 0 => return Ok(Some(sample)),
            Ended::Well(sample) => Failure::lost_updates(lock, point, sample.lost_updates),
            Ended::Badly(how) => Failure::died(lock, point, &how),
            Ended::Interrupted => return Ok(None),
        };
        self.results.failures.push(failure);
        // Perhaps it was this lock whose pair could not be timed.
        self.no_pairs = false;
        Ok(None)
    }

    /// Measures an operation of `point` by one thread without a lock, in nanoseconds.
    fn measure_floor(&self, point: Point, round: usize) -> Result<Option<f64>> {
        let alone = Point { threads: 1, uneven: 1, ..point };
        let spec = RunSpec { seconds: FLOOR_SECONDS, ..self.spec(FLOOR, alone, round) };
        Ok(match overlock_bench::run(spec, interrupt::flag())? {
            Ended::Well(sample) => Some(1e9 / sample.ops_per_s),
            Ended::Badly(_) | Ended::Interrupted => None,
        })
    }

    /// Builds the task of one lock in a round: the same for all locks.
    fn spec(&self, lock: &str, point: Point, round: usize) -> RunSpec {
        let mix = |phase: Phase| Mix {
            cs_links: self.work.links(phase.cs.0),
            ncs_links: self.work.links(phase.ncs.0),
            lengths: point.lengths,
            cells: point.locks,
        };
        let shortest = point.phases().map(|phase| phase.cs.0 + phase.ncs.0).min();
        RunSpec {
            lock: lock.to_owned(),
            threads: point.threads,
            mixes: point.phases().map(mix).collect(),
            uneven: point.uneven,
            links_per_ns: self.work.per_ns,
            logged: false,
            seed: seed_of(self.plan.seed, round as u64),
            spacing: overlock_bench::spacing(shortest.unwrap_or(0)),
            seconds: self.plan.seconds,
            counted: self.plan.counted,
            clock: self.clock,
        }
    }
}
