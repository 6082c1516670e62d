// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock bench`: locks in any world, by flags or by experiments.
//!
//! ```text
//! args | experiment.toml ─► Plan ─► Job ─► World ─► Run ─► Rounds ─► Row ─► table | check | verdict
//! ```
//!
//! This file goes from the arguments to a plan in a world, and from the rows to what people read.
//! `measure.rs` makes the rounds; everything after it reads rows.

mod args;
mod bounds;
mod explain;
#[cfg(test)]
mod golden;
mod measure;
mod plan;
mod published;
mod tables;
mod what_if;

use crate::interrupt;
use crate::machine::observe;
use crate::outcome::Outcome;
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::warnings::{self, Warning};
use anyhow::{Result, bail};
pub(crate) use args::BenchArgs;
use measure::Measured;
use overlock_bench::DRIFT_LIMIT;
use overlock_judge::{advice, beside, check, summaries};
use overlock_world::experiment::Experiment;
use overlock_world::row::{Head, Row};
use overlock_world::{World, clock};
use overlock_worlds::{self as worlds, Checked, Heard, Image, Open};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed where no points are drawn: the same command then always makes the same simulations.
const SEED: u64 = 1;

/// What an experiment, or several, came to.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Whether nothing failed, and no bound was missed.
    is_fine: bool,
    has_results: bool,
    /// Whether only a part of a sweep was made, which the world has told.
    is_a_part: bool,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.is_fine &= other.is_fine;
        self.has_results |= other.has_results;
        self.is_a_part |= other.is_a_part;
    }
}

/// Runs the sub-command.
pub(crate) fn main(args: &BenchArgs) -> Result<Outcome> {
    let experiments = plan::experiments(args)?;
    let is_drawn = experiments.iter().any(|of| of.factors.random.is_some());
    let seed = args.seed.unwrap_or_else(|| if is_drawn { day(SystemTime::now()) } else { SEED });
    if args.print {
        return plan::print(&experiments);
    }
    interrupt::watch()?;
    let mut sink = Sink::open(&args.output)?;
    let machine = observe(&clock::Stamps::calibrate());
    sink.row(&Row::Run(Head { seed: Some(seed), machine: machine.clone(), ..output::head() }))?;
    if args.seed.is_none() && is_drawn {
        sink.people(&format!("Seed of the day: {seed} (--seed {seed} repeats it)\n"))?;
    }
    let mut found = Found { is_fine: true, ..Found::default() };
    let mut last: Option<(String, Open)> = None;
    for experiment in &experiments {
        let name = args.world(experiment);
        let open = match last.take() {
            Some((same, open)) if same == name => open,
            _ => {
                let progress = Progress::new(0);
                progress.say(&format!("opens the world {name}"));
                let open = match worlds::open(&name, &args.options()) {
                    Err(_) if interrupt::seen() => break,
                    open => open?,
                };
                drop(progress);
                let busy = Warning::busy_machine(&machine).filter(|_| open.world().is_real());
                busy.iter().for_each(Warning::print);
                open
            }
        };
        if args.check
            && let Open::Image(image) = &open
        {
            let checked = verify(image, &args.cpus, &mut sink)?;
            found.add(Found { is_fine: checked.is_fine, has_results: checked.has_any, ..found });
        } else {
            found.add(one(args, experiment, open.world(), seed, &mut sink)?);
        }
        last = Some((name, open));
        if interrupt::seen() {
            break;
        }
    }
    let drift = last.and_then(|(_, open)| open.drift()).filter(|drift| *drift > DRIFT_LIMIT);
    if let Some(drift) = drift {
        Warning::Drift { percent: drift * 100.0 }.print();
    }
    if !found.is_a_part {
        interrupt::tell(found.has_results);
    }
    sink.end(match (interrupt::seen(), found.is_fine) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::CheckFailed,
    })
}

/// A kernel's check of itself, as a row.
#[derive(Serialize)]
struct CheckRow<'a> {
    kind: &'static str,
    world: &'static str,
    #[serde(flatten)]
    check: &'a worlds::Check,
}

/// Lets a kernel check itself, and tells what it finds.
fn verify(image: &Image, cpus: &[u32], sink: &mut Sink) -> Result<Checked> {
    let (progress, world) = (Progress::new(worlds::CHECKS), image.name());
    let checked = image.verify(cpus, &mut |heard| match heard {
        Heard::Progress(what) => {
            progress.say(what);
            Ok(())
        }
        Heard::Check(check) => {
            progress.step();
            sink.record(&CheckRow { kind: "check", world, check })?;
            let verdict = if check.fine { "fine" } else { "FAILED" };
            let found = if check.found.is_empty() { "" } else { ": " };
            let line = format!("  {verdict:6}  {}{found}{}", check.what, check.found);
            progress.suspend(|| sink.people(&line))
        }
    });
    progress.finish();
    checked
}

/// Judges rows, whoever measured them. Returns whether no bound was missed; nothing if none is
/// about these rows.
pub(crate) fn judge(rows: &[Row], sink: &mut Sink) -> Result<Option<bool>> {
    let checks = check(rows);
    if checks.is_empty() { Ok(None) } else { bounds::tell(checks, sink).map(Some) }
}

/// Measures an experiment and tells what follows.
fn one(
    args: &BenchArgs,
    experiment: &Experiment,
    world: &dyn World,
    seed: u64,
    sink: &mut Sink,
) -> Result<Found> {
    let experiment = plan::fitted(experiment, args, world)?;
    let measured = measure::all(&experiment, args, world, seed, sink)?;
    if measured.is_a_part {
        // Of a sweep, whose other parts are missing.
        return Ok(Found { is_fine: true, has_results: false, is_a_part: true });
    }
    let is_met = conclude(args, &experiment, &measured, world, sink)?;
    let is_fine = is_met && measured.failures.is_empty();
    Ok(Found { is_fine, has_results: !measured.points.is_empty(), is_a_part: false })
}

/// Tells what follows from the rows of an experiment. Returns whether no bound was missed.
fn conclude(
    args: &BenchArgs,
    experiment: &Experiment,
    measured: &Measured,
    world: &dyn World,
    sink: &mut Sink,
) -> Result<bool> {
    let Measured { points, pairs, failures, .. } = measured;
    let mut rows: Vec<Row> = points.iter().cloned().map(Box::new).map(Row::Point).collect();
    rows.extend(pairs.iter().cloned().map(Row::Pair));
    for failure in failures {
        output::complain(&format!("failed: {}", failure.sentence));
    }
    warnings::of_points(points).iter().for_each(Warning::print);
    if !world.has_host() {
        let summaries = summaries(&rows);
        for summary in &summaries {
            sink.row(&Row::Summary(summary.clone()))?;
        }
        if !summaries.is_empty() {
            sink.people(&tables::summary(&summaries, points))?;
        }
        if let Some(advice) = advice(&rows, &summaries) {
            sink.people(&advice.sentence)?;
            sink.row(&Row::Advice(advice))?;
        }
    }
    let mut met = true;
    let besides = beside(experiment, world, points);
    if !besides.is_empty() {
        sink.people(&published::table(experiment, world, &besides))?;
        for beside in &besides {
            sink.row(&Row::Published(Box::new(beside.clone())))?;
        }
    }
    // Verdicts are pinned for simulations, which repeat.
    let is_pinned = !world.is_real() && besides.iter().any(|one| one.published.pinned.is_some());
    if args.check && is_pinned && !interrupt::seen() {
        let changes = published::changes(&besides);
        changes.iter().for_each(|change| output::complain(change));
        let pinned = besides.iter().filter(|one| one.published.pinned.is_some()).count();
        let changed = changes.len();
        sink.people(&format!("Pinned verdicts: {pinned}, of which {changed} have changed"))?;
        met &= changes.is_empty();
    }
    if let Some(loss) = args.what_if {
        let answers = what_if::answers(loss, points);
        sink.people(&what_if::text(loss, &answers))?;
        answers.into_iter().try_for_each(|answer| sink.row(&Row::WhatIf(answer)))?;
    }
    if args.check && !is_pinned && !interrupt::seen() {
        let checks = check(&rows);
        if checks.is_empty() {
            bail!(
                "--check found nothing to judge; leave the lists out, and it measures what it needs"
            );
        }
        met &= bounds::tell(checks, sink)?;
    }
    Ok(met)
}

/// Returns the number of the day since 1970: a seed that changes daily and is the same for all
/// users.
fn day(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_seed_changes_at_midnight() {
        let at = |seconds| day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([0, 86_399, 86_400, 1_700_000_000].map(at), [0, 0, 1, 19_675]);
    }
}
