// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock reproduce`: the published figures of the five documents, beside a simulation.
//!
//! An experiment's file holds the published figures beside its set-up. Only the points of these
//! figures are run, once for every seed; a ratio is formed between two runs of one seed. Where
//! there is /dev/kvm, the points also run on real vCPUs.

pub(crate) mod instructions;
mod judge;
mod runs;

use crate::args::OutputArgs;
use crate::experiments::BUILT_IN;
use crate::lab::{EngineChoice, Run};
use crate::machine::Machine;
use crate::output::Sink;
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::sim::{self, pool};
use crate::{Outcome, interrupt, sys};
use anyhow::{Result, bail};
use clap::Args;
use instructions::cost;
use judge::Judged;
use overlock_world::Document;
use overlock_world::clock::Stamps;
use overlock_world::experiment::{Experiment, Published};
use runs::{Place, Runs};
use std::num::NonZeroU16;
use std::path::PathBuf;

/// Compare the published figures of the five documents with simulations of the same experiments.
///
/// S1 is about the cost of a paravirtual lock on bare metal, S2 about directed yields, S3 about
/// memory orderings, S4 about a lock that newcomers can pass, S5 about the ACPI PM timer. For each
/// figure this shows the published value, the simulated value, whether direction and rough size (to
/// within a quarter) agree, and if not, the known reason. Loads and hosts are models: the files in
/// experiments/ cite the source of each number, and mark those that were chosen or fitted.
///
/// Where there is /dev/kvm, each experiment also runs in the laboratory, on 2 of this machine's
/// CPUs, as far as 2 CPUs can have its overcommit. For S1, which is about locks that no thread
/// waits for, the instructions of an uncontended lock and unlock are counted too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// The documents: S1 to S5 [default: all]
    #[arg(value_name = "S1..S5", value_parser = ["S1", "S2", "S3", "S4", "S5"])]
    #[arg(ignore_case = true)]
    documents: Vec<String>,

    /// One experiment with published figures: a built-in one by its name, or your own file
    #[arg(long, value_name = "NAME|FILE")]
    experiment: Vec<PathBuf>,

    /// Make one short run of each point: within a minute in total
    #[arg(long)]
    quick: bool,

    /// Only simulate: do not run the experiments on this machine's vCPUs
    #[arg(long)]
    no_lab: bool,

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
  overlock reproduce --experiment s4-micro --quick

Exit codes: 0 what could be run was (whether it agrees or not), 2 could not run or write, 130
interrupted.";

/// The number of pCPUs of the laboratory, if the machine has that many.
const LAB_PCPUS: u32 = 2;

/// The length of a quick run, relative to a full one.
const QUICK: f64 = 0.2;

/// Runs the sub-command.
pub(crate) fn main(args: &ReproduceArgs) -> Result<Outcome> {
    let mut experiments = Vec::new();
    let all = args.documents.is_empty() && args.experiment.is_empty();
    for built_in in BUILT_IN {
        let Some(document) = built_in.document else { continue };
        if all || args.documents.iter().any(|asked| asked.eq_ignore_ascii_case(document)) {
            let file = format!("experiments/{}.toml", built_in.name);
            experiments.push(Experiment::parse(&file, built_in.text)?);
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
    sink.record(&RunRecord::new(&Machine::observe(&Stamps::calibrate()), args.seed))?;
    let jobs = args.jobs.map_or_else(pool::jobs, |jobs| jobs.get().into());
    let lab = laboratory(args);
    let progress = Progress::new(0);
    for experiment in &experiments {
        let simulated = Runs::new(experiment, Place::Simulator(jobs), args)?;
        let mut done = tell(simulated, experiment, &progress, &mut sink)?;
        if done == Outcome::Fine
            && let Some((run, pcpus)) = &lab
        {
            let here = Runs::new(experiment, Place::Laboratory(run, *pcpus), args)?;
            done = tell(here, experiment, &progress, &mut sink)?;
        }
        if done == Outcome::Interrupted {
            progress.finish();
            crate::output::complain(&format!(
                "interrupted: {} is not judged, nor are the experiments after it",
                experiment.name
            ));
            return sink.end(done);
        }
    }
    progress.finish();
    sink.end(Outcome::Fine)
}

/// Returns the laboratory and the number of this machine's CPUs that it uses, if there is one and
/// it is wanted.
fn laboratory(args: &ReproduceArgs) -> Option<(Run<'static>, u32)> {
    if args.no_lab {
        return None;
    }
    match crate::lab::engine(EngineChoice::Kvm) {
        Ok(run) => Some((run, u32::try_from(sys::allowed_cpus()).unwrap_or(1).min(LAB_PCPUS))),
        Err(why) => {
            crate::output::complain(&format!("skipped: the laboratory's side: {why:#}"));
            None
        }
    }
}

/// Makes the runs of an experiment in one world, judges them and reports them.
fn tell(
    mut runs: Runs<'_>,
    experiment: &Experiment,
    progress: &Progress,
    sink: &mut Sink,
) -> Result<Outcome> {
    let skipped = runs.count();
    runs.make(progress)?;
    if interrupt::seen() {
        return Ok(Outcome::Interrupted);
    }
    if let Err(why) = skipped {
        let name = &experiment.name;
        progress.suspend(|| {
            crate::output::complain(&format!("skipped: the instructions of {name}: {why:#}"));
        });
    }
    let (mut judged, mut baseless) = (Vec::new(), 0);
    for published in runs.published() {
        match runs.figures(published)? {
            none if none.is_empty() => baseless += 1,
            ours => judged.push(Judged::new(&experiment.name, runs.at(published), published, ours)),
        }
    }
    if judged.is_empty() {
        return Ok(Outcome::Fine);
    }
    progress.suspend(|| -> Result<()> {
        for one in &judged {
            sink.record(one)?;
        }
        sink.people(&judge::table(&runs.heading(), &judged))?;
        if baseless > 0 {
            sink.people(&format!(
                "Left out: {baseless} ratios to what was zero in every round.\n"
            ))?;
        }
        let costs = cost::all(experiment, &runs.host, &runs.pairs)?;
        for cost in &costs {
            sink.record(cost)?;
        }
        cost::table(&costs).map_or(Ok(()), |counted| sink.people(&counted))
    })?;
    Ok(Outcome::Fine)
}

/// Refuses experiments that can't be reproduced: without a host, or with unknown figures.
fn suits(experiment: &Experiment, document: &Document<'_>) -> Result<()> {
    sim::suits(experiment, None, document)?;
    for (at, Published { figure, .. }) in experiment.published.iter().enumerate() {
        let known = [&judge::FIGURES[..], &instructions::FIGURES].concat();
        if !known.contains(&figure.as_str()) {
            let known = known.join(", ");
            let what = format!("there is no figure {figure}; choose from {known}");
            return Err(document.refuse(&[&format!("published.{at}.figure")], what).into());
        }
    }
    Ok(())
}
