// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a comparison: the ranked table, the failures, the doubts and the verdict.

use crate::args::CompareArgs;
use crate::interrupt;
use crate::output::{self, Sink};
use crate::table::Table;
use crate::warnings::Warning;
use anyhow::Result;
use overlock_judge::{choose, startup};
use overlock_launch::{LIBC, NONE, Target, Waits};
use overlock_world::Run;
use overlock_world::row::{Failure, PROCESS, Point, Row};
use overlock_world::stats::{self, Interval};
use overlock_world::units::{count, three, time};

/// Results that vary by more than this are reported as doubtful.
const SPREAD_LIMIT: f64 = 0.15;

/// A lock this many times worse than the baseline in every one of the first rounds is left out: its
/// exact percentage changes no decision, and would take as long as all other rounds together.
pub(super) const BEATEN_FACTOR: f64 = 5.0;

/// Everything that is known.
pub(super) struct Report<'a> {
    pub(super) args: &'a CompareArgs,
    pub(super) target: &'a Target,
    pub(super) failures: &'a [Failure],
    pub(super) waits: &'a Waits,
    /// Locks that were left out.
    pub(super) beaten: Vec<&'a str>,
    /// The best first.
    pub(super) points: &'a [Point],
}

impl Report<'_> {
    /// Prints and records all of it.
    pub(super) fn tell(&self, sink: &mut Sink) -> Result<()> {
        self.tell_figures(sink)?;
        for failure in self.failures {
            sink.row(&Row::Failure(failure.clone()))?;
            let lock = failure.lock.as_deref().unwrap_or_default();
            output::complain(&format!("failed: under {lock}, {}", failure.sentence));
        }
        let locks = self.points.iter().filter(|point| point.lock != NONE).count();
        if !self.failures.is_empty() && locks < 2 {
            sink.people("No verdict: too few locks are left to compare.")?;
        }
        if self.failures.is_empty() && locks == 1 {
            sink.people(&format!(
                "No verdict: there is only one lock, because {NONE} replaces nothing; name two, as \
                 in --locks libc,hybrid."
            ))?;
        }
        if let Some(choice) = choose(self.points, self.waits.replaced()) {
            sink.row(&Row::Choice(choice.clone()))?;
            sink.people(&choice.sentence)?;
            if let Some(lock) = choice.lock.filter(|lock| lock != LIBC) {
                sink.people(&format!("  overlock run {lock} -- {}", self.target.typed()))?;
            }
        }
        Ok(())
    }

    fn tell_figures(&self, sink: &mut Sink) -> Result<()> {
        let Some(first) = self.points.first() else { return Ok(()) };
        for point in self.points {
            sink.row(&Row::Point(Box::new(point.clone())))?;
        }
        let library = self.target.library.as_ref().map(|file| file.describe());
        sink.people(&table(self.points, library.as_deref()))?;
        let baseline = first.baseline.as_deref().unwrap_or_default();
        let rounds = |point: &Point| point.samples.len();
        for lost in self.points.iter().filter(|point| self.beaten.contains(&&*point.lock)) {
            sink.people(&format!(
                "{} was left out after {} rounds: over {BEATEN_FACTOR} times worse than {baseline} \
                 in each",
                lost.lock,
                rounds(lost),
            ))?;
        }
        let most = self.points.iter().map(rounds).max().unwrap_or(0);
        if most < usize::from(self.args.runs) && !interrupt::seen() {
            sink.people(&format!(
                "stopped after {most} of {} rounds, because more would tell no more",
                self.args.runs
            ))?;
        }
        if let Some(cost) = startup::cost(self.points) {
            sink.people(&startup::sentence(&cost))?;
        }
        warnings(self.points).iter().for_each(Warning::print);
        Ok(())
    }
}

/// Judges the programs among rows, whoever measured them. Returns whether none failed; nothing if
/// there is none.
pub(crate) fn judge(rows: &[Row], sink: &mut Sink) -> Result<Option<bool>> {
    let points = rows.iter().filter_map(|row| match row {
        Row::Point(point) if point.world == PROCESS => Some(&**point),
        _ => None,
    });
    let programs = stats::unique(points.clone().map(|point| point.workload.clone()));
    let waits = rows.iter().find_map(|row| match row {
        Row::Choice(choice) => choice.waits,
        _ => None,
    });
    let failures = rows.iter().filter_map(|row| match row {
        Row::Failure(failure) => Some(failure.sentence.as_str()),
        _ => None,
    });
    for program in &programs {
        let own = points.clone().filter(|point| point.workload == *program);
        let own: Vec<Point> = own.cloned().collect();
        let library = own.iter().find_map(|point| point.library.clone());
        sink.people(&table(&own, library.as_deref()))?;
        if let Some(choice) = choose(&own, waits.filter(|_| programs.len() == 1)) {
            sink.people(&choice.sentence)?;
        }
    }
    let failures: Vec<&str> = failures.filter(|_| !programs.is_empty()).collect();
    failures.iter().for_each(|sentence| output::complain(&format!("failed: {sentence}")));
    Ok((!programs.is_empty()).then_some(failures.is_empty()))
}

/// Lays out the points of one program, with the library's file if that is known.
fn table(points: &[Point], library: Option<&str>) -> String {
    let Some(first) = points.first() else { return String::new() };
    format!("{}{}", heading(first, points, library), rows(first, points))
}

fn rows(first: &Point, points: &[Point]) -> Table {
    let show = |value: f64| match &first.metric {
        Some(_) => count(value),
        None => time(value * 1e9),
    };
    let of = format!("of {}", first.baseline.as_deref().unwrap_or("?"));
    let what = if first.metric.is_some() { "metric" } else { "wall time" };
    // One round has no interval.
    let has_ends = points.iter().any(|point| point.samples.len() > 1);
    let ends: &[&str] = if has_ends { &["low", "high"] } else { &[] };
    let rest = ["stall", "CPU s", "RSS MiB"];
    let mut table = Table::new(&[&["lock", what], ends, &[&of], ends, &rest].concat());
    for point in points {
        let (Some(value), Some(ratio)) = (point.value, point.of_baseline) else { continue };
        let median = |figure: fn(&Run) -> Option<f64>| {
            let each: Option<Vec<f64>> = point.samples.iter().map(figure).collect();
            each.and_then(|each| stats::median(&each)).map_or_else(|| "-".into(), three)
        };
        let mut row = vec![point.lock.clone()];
        let figures = |of: Interval| [of.median, of.low, of.high];
        let shown = if has_ends { 3 } else { 1 };
        row.extend(figures(value).map(show).into_iter().take(shown));
        row.extend(figures(ratio).map(three).into_iter().take(shown));
        row.push(point.longest_stall_ns.map_or_else(String::new, |ns| time(ns as f64)));
        row.push(median(|run| run.cpu_s));
        row.push(median(|run| Some(run.max_rss_kib? as f64 / 1024.0)));
        table.row(row);
    }
    table
}

/// Says what is compared, and how often.
fn heading(first: &Point, points: &[Point], library: Option<&str>) -> String {
    let of = format!("of {}", first.baseline.as_deref().unwrap_or("?"));
    let most = points.iter().map(|point| point.samples.len()).max().unwrap_or(0);
    let metric = match (&first.metric, first.higher_is_better) {
        (None, _) => "",
        (Some(_), Some(true)) => "; a higher metric is better",
        (Some(_), _) => "; a lower metric is better, without --higher-is-better",
    };
    let library = library.map_or_else(String::new, |file| format!("; {file}"));
    format!(
        "{}\n{}{metric}; \"{of}\" above 1 is better{library}\n",
        first.workload,
        stats::describe(most)
    )
}

fn warnings(points: &[Point]) -> Vec<Warning> {
    let most = points.iter().max_by(|a, b| a.steal.total_cmp(&b.steal));
    let place = |point: &Point| format!("at most: {}", point.lock);
    let mut warnings: Vec<Warning> =
        most.and_then(|point| Warning::steal(point.steal, place(point))).into_iter().collect();
    let spreads = points.iter().filter_map(|point| Some((point.value?.spread(), point)));
    if let Some((spread, point)) = spreads.max_by(|a, b| a.0.total_cmp(&b.0))
        && spread > SPREAD_LIMIT
    {
        let place = format!("widest: {}", point.lock);
        warnings.push(Warning::WideInterval { place, spread });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a file that the command wrote in the past; of lists in it, most is left out.
    fn kept() -> Vec<Row> {
        let text = include_str!("../../../overlock-report/tests/data/2026-11-26-compare.jsonl");
        let mut rows: Vec<Row> = text.lines().map(|line| Row::parse(line).unwrap()).collect();
        for row in &mut rows {
            if let Row::Point(point) = row {
                point.samples.retain(|run| run.value.is_some());
            }
        }
        rows
    }

    #[test]
    fn the_table_of_a_kept_comparison_is_laid_out_again() {
        let points = kept().into_iter().filter_map(|row| match row {
            Row::Point(point) => Some(*point),
            _ => None,
        });
        let points: Vec<Point> = points.collect();
        let first = &points[0];
        let text =
            heading(first, &points, Some("the library")) + &rows(first, &points).fitted(None);
        assert_eq!(text, KEPT);
    }

    const KEPT: &str = "\
/usr/bin/sort --parallel=4 /etc/services
1 round, so no interval; \"of libc\" above 1 is better; the library
  lock    wall time  of libc  stall  CPU s  RSS MiB
  libc       969 us     1.00   0 ns   9e-4     17.6
  hybrid    1.10 ms    0.878   0 ns  0.001     17.6
  none      1.12 ms    0.866   0 ns  0.001     17.6
";

    #[test]
    fn a_kept_comparison_is_judged_again() {
        let mut sink = Sink::tables();
        assert_eq!(judge(&kept(), &mut sink).unwrap(), Some(true));
        assert_eq!(judge(&[], &mut sink).unwrap(), None);
        let failed = Failure { sentence: "it crashed".into(), ..Failure::default() };
        let rows = [kept(), vec![Row::Failure(failed)]].concat();
        assert_eq!(judge(&rows, &mut sink).unwrap(), Some(false));
    }
}
