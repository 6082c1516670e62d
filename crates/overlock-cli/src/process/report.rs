// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a comparison: the ranked table, the failures, the doubts and the verdict.

use super::compare::{BEATEN_FACTOR, Failure};
use super::startup::StartUp;
use super::verdict::{self, Findings, Series};
use crate::args::CompareArgs;
use crate::interrupt;
use crate::machine::CpuTimes;
use crate::output::{self, Sink};
use crate::record::ProcessRecord;
use crate::stats::{self, Interval};
use crate::table::Table;
use crate::units::{count, three, time};
use crate::warnings::Warning;
use anyhow::Result;
use overlock_launch::{LIBC, NONE, Sample, Target, Waits};
use overlock_world::row::Machine;

/// Results that vary by more than this are reported as doubtful.
const SPREAD_LIMIT: f64 = 0.15;

/// Returns the series that the others are compared with: the unmodified program, or else the first
/// lock.
pub(super) fn baseline(all: &[Series]) -> Option<&Series> {
    let find = |is_it: fn(&str) -> bool| all.iter().find(|series| is_it(&series.lock));
    find(|lock| lock == LIBC).or_else(|| find(|lock| lock != NONE)).or(all.first())
}

/// Everything that is known.
pub(super) struct Report<'a> {
    pub(super) args: &'a CompareArgs,
    pub(super) target: &'a Target,
    pub(super) failures: &'a [Failure],
    pub(super) waits: &'a Waits,
    pub(super) machine: &'a Machine,
    pub(super) series: &'a [Series],
}

impl Report<'_> {
    /// Prints and records all of it.
    pub(super) fn tell(&self, sink: &mut Sink) -> Result<()> {
        let baseline = baseline(self.series);
        let ranked = baseline.map(|baseline| self.ranked(baseline)).unwrap_or_default();
        if let Some(baseline) = baseline {
            self.tell_figures(&ranked, baseline, sink)?;
        }
        for failure in self.failures {
            sink.record(failure)?;
            output::complain(&format!("failed: under {}, {}", failure.lock, failure.sentence));
        }
        // The library that replaces nothing is not a choice.
        let locks: Vec<&Series> =
            ranked.iter().copied().filter(|series| series.lock != NONE).collect();
        if !self.failures.is_empty() && locks.len() < 2 {
            sink.people("No verdict: too few locks are left to compare.")?;
        }
        let Some(baseline) = baseline else { return Ok(()) };
        if self.failures.is_empty() && locks.len() < 2 {
            sink.people(&format!(
                "No verdict: there is only one lock, because {NONE} replaces nothing; name two, as \
                 in --locks libc,hybrid."
            ))?;
        }
        let findings = Findings {
            ranked: &locks,
            baseline,
            none: ranked.iter().copied().find(|series| series.lock == NONE),
            startup: StartUp::of(self.series),
            waits: self.waits.replaced(),
            higher_is_better: self.args.higher_is_better,
        };
        if let Some(verdict) = verdict::judge(&findings) {
            sink.record(&verdict)?;
            sink.people(&verdict.sentence)?;
            if let Some(lock) = verdict.lock.filter(|lock| lock != LIBC) {
                sink.people(&format!("  overlock run {lock} -- {}", self.target.typed()))?;
            }
        }
        Ok(())
    }

    /// Returns the locks by the ratios that the table shows, the best first.
    fn ranked(&self, baseline: &Series) -> Vec<&Series> {
        let higher = self.args.higher_is_better;
        let ratio = |series: &Series| series.better_than(baseline, higher).map(|all| all.median);
        let mut ranked: Vec<(f64, &Series)> =
            self.series.iter().filter_map(|series| Some((ratio(series)?, series))).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked.into_iter().map(|(_, series)| series).collect()
    }

    fn tell_figures(&self, ranked: &[&Series], baseline: &Series, sink: &mut Sink) -> Result<()> {
        for lock in ranked {
            sink.record(&self.record(lock, baseline))?;
        }
        sink.people(&self.table(ranked, baseline))?;
        for lost in ranked.iter().filter(|series| series.beaten) {
            sink.people(&format!(
                "{} was left out after {} rounds: over {BEATEN_FACTOR} times worse than {} in \
                 each",
                lost.lock,
                lost.samples.len(),
                baseline.lock
            ))?;
        }
        if baseline.samples.len() < usize::from(self.args.runs) && !interrupt::seen() {
            sink.people(&format!(
                "stopped after {} of {} rounds, because more would tell no more",
                baseline.samples.len(),
                self.args.runs
            ))?;
        }
        if let Some(startup) = StartUp::of(self.series) {
            sink.people(&startup.sentence())?;
        }
        self.warnings(ranked).iter().for_each(Warning::print);
        Ok(())
    }

    fn record<'a>(&'a self, series: &'a Series, baseline: &'a Series) -> ProcessRecord<'a, Sample> {
        let median =
            |figure: fn(&Sample) -> f64| stats::median(&series.each(figure)).unwrap_or_default();
        ProcessRecord {
            kind: "point",
            world: "process",
            workload: self.target.typed(),
            lock: &series.lock,
            policy: "none",
            pcpus: self.machine.cpus.unwrap_or(0) as usize,
            seconds: median(|sample| sample.wall_s),
            samples: &series.samples,
            ops_per_s: Interval::of(&series.each(|sample| 1.0 / sample.wall_s)),
            cpu_s_per_s: median(|sample| sample.cpu_s / sample.wall_s),
            counters: self.waits.of(&series.lock),
            metric: self.args.metric.as_deref(),
            higher_is_better: self.args.higher_is_better,
            value: series.value(),
            baseline: &baseline.lock,
            library: self.target.library.as_ref().map(|library| library.path.display().to_string()),
            longest_stall_ns: self.longest_stall_ns(series),
            of_baseline: series.better_than(baseline, self.args.higher_is_better),
            interval_coverage: stats::coverage(series.samples.len()),
            steal: steal([series]),
        }
    }

    /// Returns the longest stall at a mutex in any round, as far as it is known.
    fn longest_stall_ns(&self, series: &Series) -> Option<u64> {
        series.samples.iter().filter_map(|sample| sample.longest_stall_ns).max()
    }

    fn table(&self, ranked: &[&Series], baseline: &Series) -> String {
        let show = |value: f64| match &self.args.metric {
            Some(_) => count(value),
            None => time(value * 1e9),
        };
        let of = format!("of {}", baseline.lock);
        let what = if self.args.metric.is_some() { "metric" } else { "wall time" };
        let ratio = [&of, "low", "high", "stall", "CPU s", "RSS MiB"];
        let header = [&["lock", what, "low", "high"], &ratio[..]].concat();
        let mut table = Table::new(&header);
        let higher = self.args.higher_is_better;
        for series in ranked {
            let (Some(value), Some(ratio)) = (series.value(), series.better_than(baseline, higher))
            else {
                continue;
            };
            let median = |figure: fn(&Sample) -> f64| {
                three(stats::median(&series.each(figure)).unwrap_or_default())
            };
            let mut row = vec![series.lock.clone()];
            row.extend([value.median, value.low, value.high].map(show));
            row.extend([ratio.median, ratio.low, ratio.high].map(three));
            let stall = self.longest_stall_ns(series);
            row.push(stall.map_or_else(String::new, |ns| time(ns as f64)));
            row.push(median(|sample| sample.cpu_s));
            row.push(median(|sample| sample.max_rss_kib as f64 / 1024.0));
            table.row(row);
        }
        let rounds = stats::describe(baseline.samples.len());
        let metric = match (&self.args.metric, higher) {
            (None, _) => "",
            (Some(_), true) => "; a higher metric is better",
            (Some(_), false) => "; a lower metric is better, without --higher-is-better",
        };
        let library = self.target.library.as_ref();
        let library = library.map_or_else(String::new, |file| format!("; {}", file.describe()));
        let command = self.target.typed();
        format!("{command}\n{rounds}{metric}; \"{of}\" above 1 is better{library}\n{table}")
    }

    fn warnings(&self, ranked: &[&Series]) -> Vec<Warning> {
        let steal = steal(ranked.iter().copied());
        let mut warnings: Vec<Warning> =
            Warning::steal(steal, "all runs together").into_iter().collect();
        let spreads = ranked.iter().filter_map(|series| Some((series.value()?.spread(), series)));
        if let Some((spread, series)) = spreads.max_by(|a, b| a.0.total_cmp(&b.0))
            && spread > SPREAD_LIMIT
        {
            let place = format!("widest: {}", series.lock);
            warnings.push(Warning::WideInterval { place, spread });
        }
        warnings
    }
}

/// Returns the share of CPU time that the hypervisor took away during some runs.
fn steal<'a>(all: impl IntoIterator<Item = &'a Series>) -> f64 {
    let mut times = CpuTimes::default();
    let samples = all.into_iter().flat_map(|series| &series.samples);
    samples.for_each(|sample| times += sample.cpu_times);
    times.steal_share()
}
