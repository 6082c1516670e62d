// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock reproduce`: the published figures of the five documents, beside a simulation.
//!
//! An experiment's file holds the published figures beside its set-up. Only the points of these
//! figures are run, once for every seed; a ratio is formed between two runs of one seed.

pub(crate) mod instructions;
mod judge;

use crate::Outcome;
use crate::args::OutputArgs;
use crate::interrupt;
use crate::output::Sink;
use crate::progress::Progress;
use crate::sim::task::Task;
use crate::sim::{self, pool};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use instructions::{Pair, cost};
use judge::Judged;
use overlock_sim::performance::{HostProfile, Setup};
use overlock_sim::seed_of;
use overlock_world::experiment::{Experiment, Over, Point, Published};
use overlock_world::{Config, Document, PmTimerRule};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::PathBuf;

/// Compare the published figures of the five documents with simulations of the same experiments.
///
/// S1 is about the cost of a paravirtual lock on bare metal, S2 about directed yields, S3 about
/// memory orderings, S4 about a lock that newcomers can pass, S5 about the ACPI PM timer. For each
/// figure this shows the published value, the simulated value, whether direction and rough size (to
/// within a quarter) agree, and if not, the known reason. Loads and hosts are models: the files in
/// experiments/ cite the source of each number, and mark those that were chosen or fitted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// The documents: S1 to S5 [default: all]
    #[arg(value_name = "S1..S5", value_parser = ["S1", "S2", "S3", "S4", "S5"])]
    #[arg(ignore_case = true)]
    documents: Vec<String>,

    /// Your own experiment's file, with published figures
    #[arg(long, value_name = "FILE")]
    experiment: Vec<PathBuf>,

    /// Make one short run of each point: within a minute in total
    #[arg(long)]
    quick: bool,

    /// Number of processes that simulate at a time [default: one for each CPU]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroU16>,

    /// Seed of the simulations
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  overlock reproduce --quick
  overlock reproduce S4 S5
  overlock reproduce --experiment experiments/s4-micro.toml --quick

Exit codes: 0 what could be run was (whether it agrees or not), 2 could not run or write, 130
interrupted.";

/// The experiments, by document.
const EXPERIMENTS: [(&str, &str, &str); 9] = [
    ("S1", "s1", include_str!("../../experiments/s1.toml")),
    ("S2", "s2-kernbench", include_str!("../../experiments/s2-kernbench.toml")),
    ("S2", "s2-oltp", include_str!("../../experiments/s2-oltp.toml")),
    ("S2", "s2-ebizzy", include_str!("../../experiments/s2-ebizzy.toml")),
    ("S3", "s3", include_str!("../../experiments/s3.toml")),
    ("S4", "s4-36-cores", include_str!("../../experiments/s4-36-cores.toml")),
    ("S4", "s4-16-cores", include_str!("../../experiments/s4-16-cores.toml")),
    ("S4", "s4-micro", include_str!("../../experiments/s4-micro.toml")),
    ("S5", "s5", include_str!("../../experiments/s5.toml")),
];

/// The length of a quick run, relative to a full one.
const QUICK: f64 = 0.2;

/// Runs the sub-command.
pub(crate) fn main(args: &ReproduceArgs) -> Result<Outcome> {
    let mut experiments = Vec::new();
    let all = args.documents.is_empty() && args.experiment.is_empty();
    for (document, name, text) in EXPERIMENTS {
        if all || args.documents.iter().any(|asked| asked.eq_ignore_ascii_case(document)) {
            let file = format!("experiments/{name}.toml");
            experiments.push(Experiment::parse(&file, text)?);
        }
    }
    for path in &args.experiment {
        let experiment = crate::lab::read(path, &suits)?;
        if experiment.published.is_empty() {
            bail!("{} has no published figures; add a [[published]] table", path.display());
        }
        experiments.push(experiment);
    }
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let jobs = args.jobs.map_or_else(pool::jobs, |jobs| jobs.get().into());
    let progress = Progress::new(0);
    for experiment in &experiments {
        let mut runs = Runs::new(experiment, args)?;
        let skipped = runs.count();
        runs.make(jobs, &progress)?;
        if interrupt::seen() {
            progress.finish();
            crate::output::complain(&format!(
                "interrupted: {} is not judged, nor are the experiments after it",
                experiment.name
            ));
            return sink.end(Outcome::Interrupted);
        }
        let judge = |published| -> Result<Judged<'_>> {
            Ok(Judged::new(&experiment.name, published, runs.figures(published)?))
        };
        let judged: Vec<_> = runs.published().map(judge).collect::<Result<_>>()?;
        progress.suspend(|| -> Result<()> {
            for one in &judged {
                sink.record(one)?;
            }
            sink.people(&judge::table(experiment, &runs.host.name, &judged))?;
            if let Err(why) = &skipped {
                crate::output::complain(&format!(
                    "skipped: the instructions of {}: {why:#}",
                    experiment.name
                ));
            }
            let costs = cost::all(experiment, &runs.host, &runs.pairs)?;
            for cost in &costs {
                sink.record(cost)?;
            }
            cost::table(&costs).map_or(Ok(()), |counted| sink.people(&counted))
        })?;
    }
    progress.finish();
    sink.end(Outcome::Fine)
}

/// The runs of an experiment, each made once.
struct Runs<'a> {
    experiment: &'a Experiment,
    /// What its locks execute, where figures are about that and it can be counted.
    pairs: Vec<Pair>,
    host: HostProfile,
    seed: u64,
    rounds: u16,
    seconds: f64,
    done: BTreeMap<String, sim::Record>,
}

impl<'a> Runs<'a> {
    fn new(experiment: &'a Experiment, args: &ReproduceArgs) -> Result<Self> {
        let host = experiment.host.machine.as_deref().unwrap_or(sim::DEFAULT_HOST);
        Ok(Self {
            experiment,
            pairs: Vec::new(),
            host: sim::host(host)?,
            seed: args.seed,
            rounds: if args.quick { 1 } else { experiment.host.runs },
            seconds: experiment.host.seconds * if args.quick { QUICK } else { 1.0 },
            done: BTreeMap::new(),
        })
    }

    /// Counts what the locks execute, if a figure is about that. What could not be counted is not
    /// judged.
    fn count(&mut self) -> Result<()> {
        if self.experiment.published.iter().any(instructions::counts) {
            self.pairs = instructions::count(&self.experiment.factors.locks)?;
        }
        Ok(())
    }

    /// The published figures that ours can be held beside.
    fn published(&self) -> impl Iterator<Item = &'a Published> + use<'a> {
        let counted = !self.pairs.is_empty();
        self.experiment.published.iter().filter(move |one| counted || !instructions::counts(one))
    }

    /// Makes all runs that the experiment's figures take.
    fn make(&mut self, jobs: usize, progress: &Progress) -> Result<()> {
        let mut tasks = BTreeMap::new();
        let simulated = |published: &&Published| !instructions::counts(published);
        for published in self.experiment.published.iter().filter(simulated) {
            for over in sides(published) {
                for task in self.tasks(published, &over)? {
                    tasks.insert(task.key()?, task);
                }
            }
        }
        let tasks: Vec<&Task> = tasks.values().collect();
        progress.more(tasks.len() as u64);
        pool::run(&tasks, jobs, |task, ran| {
            progress.say(&format!("{}: {}", self.experiment.name, task.name()));
            progress.step();
            let record = ran.map_err(|said| anyhow!("{}: {said}", task.name()))?;
            self.done.insert(task.key()?, record);
            Ok(())
        })
    }

    /// Returns a figure's value in each round, over its base.
    fn figures(&self, published: &Published) -> Result<Vec<f64>> {
        let own = self.values(published, &Over::default())?;
        let Some(over) = &published.over else { return Ok(own) };
        let base = self.values(published, over)?;
        // Of throughput more is better, of instructions less.
        let less = instructions::counts(published);
        let ratio = |(own, base): (f64, f64)| if less { base / own } else { own / base };
        Ok(own.into_iter().zip(base).map(ratio).collect())
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
        let task = |round: u16| {
            // The same seed for all points of a round.
            let seed = seed_of(self.seed, round.into());
            let setup = Setup { host: self.host.clone(), seed, seq_cst: over.seq_cst };
            let config = Config {
                duration: std::time::Duration::from_secs_f64(self.seconds),
                ..self.experiment.config(&point)
            };
            Task::new(&setup, &config, &point.profile, point.lock.built)
        };
        Ok((0..self.rounds).map(task).collect())
    }
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

/// Refuses experiments that can't be reproduced: without a host, or with unknown figures.
fn suits(experiment: &Experiment, document: &Document<'_>) -> Result<()> {
    sim::suits(experiment, None, document)?;
    for (at, Published { figure, .. }) in experiment.published.iter().enumerate() {
        let known = [&judge::FIGURES[..], &instructions::FIGURES].concat();
        if !known.contains(&figure.as_str()) {
            let known = known.join(", ");
            let what = format!("no figure is called {figure}; there are {known}");
            return Err(document.refuse(&[&format!("published.{at}.figure")], what).into());
        }
    }
    Ok(())
}
