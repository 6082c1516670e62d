//! `overlock bench`: locks in any world, by flags or by experiments.
//!
//! ```text
//! args | experiment.toml ─► Plan ─► Job ─► World ─► Run ─► Rounds ─► Row ─► table | check | verdict
//! ```
//!
//! This file opens the worlds and takes the experiments there, or lets a world check itself.
//! `plan.rs` makes a plan of the arguments, `measure.rs` and the loop in `rounds.rs`
//! measure, and what
//! `conclude.rs` calls reads rows.

mod args;
mod bounds;
mod conclude;
#[cfg(test)]
mod golden;
mod measure;
mod plan;
mod published;
mod summary;
mod tables;

use crate::added::Added;
use crate::interrupt;
use crate::outcome::Outcome;
use crate::output::Sink;
use crate::progress::Progress;
use crate::warnings::Warning;
use anyhow::Result;
pub(crate) use args::BenchArgs;
pub(crate) use bounds::judge;
use overlock_bench::experiment::Experiment;
use overlock_bench::threads::DRIFT_LIMIT;
use overlock_bench::{Heard, World};
use overlock_results::row::{Check, Row};
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed where no points are drawn: the same command then always makes the same simulations.
const SEED: u64 = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Whether nothing failed, and no bound was missed.
    is_fine: bool,
    has_results: bool,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.is_fine &= other.is_fine;
        self.has_results |= other.has_results;
    }
}

pub(crate) fn main(args: &BenchArgs, added: &Added) -> Result<Outcome> {
    let experiments = plan::experiments(args, added)?;
    let is_drawn = experiments.iter().any(|of| of.factors.random.is_some());
    let seed = args.seed.unwrap_or_else(|| if is_drawn { day(SystemTime::now()) } else { SEED });
    if args.print {
        return plan::print(&experiments);
    }
    interrupt::watch()?;
    let mut sink = Sink::open(args.output.json, args.output.out.as_deref())?;
    let machine = sink.begin(Some(seed))?;
    // Told as soon as it is sure that something can be measured.
    let of_day = format!("Seed of the day: {seed} (--seed {seed} repeats it)\n");
    let mut seed_of_day = Some(of_day).filter(|_| args.seed.is_none() && is_drawn);
    let mut busy = Warning::busy_machine(&machine);
    let mut found = Found { is_fine: true, ..Found::default() };
    let mut last: Option<(String, Box<dyn World>)> = None;
    for experiment in &experiments {
        let name = args.world(experiment);
        let open = match last.take() {
            Some((same, open)) if same == name => open,
            _ => {
                let progress = Progress::new(0);
                progress.say(&format!("opens the world {name}"));
                match added.open(&name, &args.options(added.more)) {
                    Err(_) if interrupt::seen() => break,
                    open => open?,
                }
            }
        };
        let checked = if args.check { verify(&*open, &args.cpus, &mut sink)? } else { None };
        found.add(match checked {
            Some(checked) => checked,
            None => {
                let is_real = open.is_real();
                let before = &mut |sink: &mut Sink| {
                    busy.take_if(|_| is_real).iter().for_each(Warning::print);
                    seed_of_day.take().map_or(Ok(()), |text| sink.people(&text))
                };
                one(args, experiment, &*open, seed, &mut sink, before)?
            }
        });
        last = Some((name, open));
        if interrupt::seen() {
            break;
        }
    }
    let drift = last.and_then(|(_, world)| world.drift()).filter(|drift| *drift > DRIFT_LIMIT);
    if let Some(drift) = drift {
        Warning::drift(drift).print();
    }
    interrupt::tell(found.has_results);
    sink.end(match (interrupt::seen(), found.is_fine) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::CheckFailed,
    })
}

/// Lets a world check itself, if it can, and tells what it finds.
fn verify(world: &dyn World, cpus: &[u32], sink: &mut Sink) -> Result<Option<Found>> {
    let (progress, name) = (Progress::new(0), world.name());
    let (mut has_results, mut written) = (false, Ok(()));
    let is_fine = world.verify(cpus, &mut |heard| match heard {
        Heard::Progress(what) => {
            progress.say(what);
            true
        }
        Heard::Check(check) => {
            has_results = true;
            let verdict = if check.fine { "fine" } else { "FAILED" };
            let found = if check.found.is_empty() { "" } else { ": " };
            let line = format!("  {verdict:6}  {}{found}{}", check.what, check.found);
            let row = Row::Check(Check::plain(&check.what, name, check.fine, &check.found));
            written = sink.record(&row).and_then(|()| progress.suspend(|| sink.people(&line)));
            written.is_ok()
        }
    });
    progress.finish();
    written?;
    let Some(is_fine) = is_fine else { return Ok(None) };
    Ok(Some(Found { is_fine: is_fine? && has_results, has_results }))
}

fn one(
    args: &BenchArgs,
    experiment: &Experiment,
    world: &dyn World,
    seed: u64,
    sink: &mut Sink,
    before: measure::Before<'_>,
) -> Result<Found> {
    let experiment = plan::fitted(experiment, args, world)?;
    let measured = measure::all(&experiment, args, world, seed, sink, before)?;
    let is_met = conclude::conclude(args, &experiment, &measured, world, sink)?;
    let is_fine = is_met && measured.failures.is_empty();
    Ok(Found { is_fine, has_results: !measured.points.is_empty() })
}

/// Returns the number of the day since 1970: a seed that changes daily and is the same for all
/// users.
fn day(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}
