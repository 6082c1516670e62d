//! What follows from the rows of an experiment, for people and as further rows.

use super::args::BenchArgs;
use super::bounds::judge;
use super::measure::Measured;
use super::{published, summary};
use crate::interrupt;
use crate::output::{self, Sink};
use crate::warnings::{self, Warning};
use anyhow::{Result, bail};
use overlock_bench::World;
use overlock_bench::experiment::Experiment;
use overlock_bench::published::beside;
use overlock_results::judge::{advice, summaries};
use overlock_results::row::Row;

pub(super) fn conclude(
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
    if !world.takers().has_host() {
        let summaries = summaries(&rows);
        for summary in &summaries {
            sink.record(&Row::Summary(summary.clone()))?;
        }
        if !summaries.is_empty() {
            sink.people(&summary::table(&summaries, points))?;
        }
        if let Some(advice) = advice(&rows, &summaries) {
            sink.people(&advice.sentence)?;
            sink.record(&Row::Advice(advice))?;
        }
    }
    let mut met = true;
    let besides = beside(experiment, world, points);
    if !besides.is_empty() {
        sink.people(&published::table(experiment, world, &besides))?;
        for beside in &besides {
            sink.record(&Row::Published(Box::new(beside.clone())))?;
        }
    }
    // Verdicts are pinned for simulations, which repeat.
    let is_pinned = !world.is_real() && besides.iter().any(|one| one.published.pinned.is_some());
    if args.check && is_pinned && !interrupt::seen() {
        let changes = published::changes(experiment, &besides);
        changes.iter().for_each(|change| output::complain(change));
        let pinned = besides.iter().filter(|one| one.published.pinned.is_some()).count();
        let changed = changes.len();
        sink.people(&format!("Pinned verdicts: {pinned}, of which {changed} have changed"))?;
        met &= changes.is_empty();
    }
    if args.check && !is_pinned && !interrupt::seen() {
        match judge(&rows, sink)? {
            Some(is_met) => met &= is_met,
            None => bail!(
                "--check found nothing to judge; leave the lists out, and it measures what it needs"
            ),
        }
    }
    Ok(met)
}
