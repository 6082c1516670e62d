// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock compare`: one program, several locks, taking turns.
//!
//! First the program is run once as it is: if that doesn't work, nothing about locks can be
//! learnt from it; nor if it never waits for one, which a run with counters tells. Then come the
//! rounds. A lock under which the program crashes, hangs, prints
//! something else or loses its figure is reported and left out from then on; the others go on.

use super::preload::{self, LIBC, Target};
use super::run;
use super::trial::{Rules, Sample, Trial};
use super::verdict::{self, Series};
use crate::args::CompareArgs;
use crate::clock::Clock;
use crate::machine::{CpuTimes, Machine};
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::record::{ProcessRecord, RunRecord};
use crate::shuffle::shuffled;
use crate::stats::{self, Interval};
use crate::table::Table;
use crate::units::{count, three, time};
use crate::warnings::Warning;
use crate::{Outcome, interrupt};
use anyhow::{Context, Result, bail};
use regex::{Regex, bytes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A run is hung when it takes this many times as long as the first one, ...
const HUNG_FACTOR: f64 = 20.0;
/// ... but not before this many seconds.
const HUNG_SECONDS: f64 = 30.0;

/// A lock this many times worse than the baseline in every one of the first rounds is left out:
/// nobody needs to know to the percent how bad it is, and everybody would wait for it.
const HOPELESS_FACTOR: f64 = 5.0;
const HOPELESS_ROUNDS: usize = 3;

/// Results that vary by more than this are told as doubtful.
const SPREAD_LIMIT: f64 = 0.15;

/// A lock under which the program failed.
#[derive(Debug, Serialize)]
struct Failure {
    kind: &'static str,
    lock: String,
    sentence: String,
}

/// One run, written as it comes.
#[derive(Debug, Serialize)]
struct SampleRecord<'a> {
    kind: &'static str,
    world: &'static str,
    lock: &'a str,
    round: usize,
    #[serde(flatten)]
    sample: &'a Sample,
}

/// Runs the sub-command.
pub(crate) fn main(args: &CompareArgs) -> Result<Outcome> {
    let locks = chosen(&args.locks)?;
    let metric = args.metric.as_deref().map(Regex::new).transpose();
    let mut rules = Rules {
        metric: metric.context("--metric is no regular expression")?,
        any_exit_code: args.any_exit_code,
        timeout: args.timeout.map(Duration::from_secs_f64),
    };
    let ignore = args.ignore.as_deref().map(bytes::Regex::new).transpose();
    let ignore = ignore.context("--ignore is no regular expression")?;
    let target = Target::new(&args.command, &locks)?;
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let machine = Machine::observe(&Clock::calibrate());
    sink.record(&RunRecord::new(&machine, args.seed))?;
    Warning::busy_machine(&machine).iter().for_each(Warning::print);

    let rounds = u64::from(args.warmup) + u64::from(args.runs);
    let progress = Progress::new(2 + rounds * locks.len() as u64);
    progress.say("first run, with its own locks");
    let Some((pilot, stdout)) = pilot(&rules, &target)? else {
        progress.finish();
        interrupt::tell_that_nothing_is_done();
        return Ok(Outcome::Interrupted);
    };
    progress.step();
    if rules.timeout.is_none() {
        let limit = (pilot.wall_s * HUNG_FACTOR).max(HUNG_SECONDS).ceil();
        rules.timeout = Some(Duration::from_secs_f64(limit));
    }
    let expected = args.check_output.then(|| kept_lines(&stdout, ignore.as_ref()));
    let failures = Vec::new();
    let counters = None;
    let mut compare =
        Compare { args, rules, target, locks, ignore, expected, failures, progress, counters };
    compare.probe()?;
    let series = compare.measure(&mut sink)?;
    compare.report(&series, &machine, &mut sink)?;
    if interrupt::seen() && series.is_empty() {
        interrupt::tell_that_nothing_is_done();
    }
    sink.end(if interrupt::seen() {
        Outcome::Interrupted
    } else if compare.failures.is_empty() {
        Outcome::Fine
    } else {
        Outcome::CheckFailed
    })
}

/// Checks the names and drops repetitions.
fn chosen(names: &[String]) -> Result<Vec<String>> {
    let mut locks: Vec<String> = Vec::new();
    for name in names {
        preload::known(name)?;
        if !locks.contains(name) {
            locks.push(name.clone());
        }
    }
    Ok(locks)
}

/// Runs the program once as it is; nothing if Ctrl-C came.
fn pilot(rules: &Rules, target: &Target) -> Result<Option<(Sample, Vec<u8>)>> {
    match rules.run(target, LIBC, None)? {
        Trial::Good(sample, stdout) => Ok(Some((sample, stdout))),
        Trial::Bad(complaint) => {
            bail!(
                "there is nothing to compare: {}, with its own locks, {complaint}",
                target.typed()
            )
        }
        Trial::Interrupted => Ok(None),
    }
}

/// The lines of `stdout` that must not vary.
fn kept_lines(stdout: &[u8], ignore: Option<&bytes::Regex>) -> Vec<Vec<u8>> {
    let kept = |line: &&[u8]| ignore.is_none_or(|pattern| !pattern.is_match(line));
    stdout.split(|byte| *byte == b'\n').filter(kept).map(<[u8]>::to_vec).collect()
}

/// Shows the beginning of a line, which may be binary and of any length.
fn quote(line: &[u8]) -> String {
    const SHOWN: usize = 60;
    let dots = if line.len() > SHOWN { "..." } else { "" };
    format!("'{}{dots}'", line[..line.len().min(SHOWN)].escape_ascii())
}

/// What the others are compared with: the program as it is, or else the first lock.
fn baseline(all: &[Series]) -> Option<&Series> {
    all.iter().find(|series| series.lock == LIBC).or(all.first())
}

/// A comparison under way.
struct Compare<'a> {
    args: &'a CompareArgs,
    rules: Rules,
    target: Target,
    locks: Vec<String>,
    ignore: Option<bytes::Regex>,
    expected: Option<Vec<Vec<u8>>>,
    failures: Vec<Failure>,
    progress: Progress,
    /// What was counted in a run of its own, under this lock.
    counters: Option<(String, BTreeMap<String, u64>)>,
}

impl Compare<'_> {
    /// Runs the program once with counters, and warns if it never waits for a lock of ours: then
    /// the figures to come are about noise. No round has counters, for their sake.
    fn probe(&mut self) -> Result<()> {
        let Some(lock) = self.locks.iter().find(|lock| *lock != LIBC).cloned() else {
            self.progress.step();
            return Ok(());
        };
        self.progress.say(&format!("{lock}, counting"));
        let file = tempfile::NamedTempFile::new().context("can't make a file for the counters")?;
        if self.run(&lock, Some(file.path()))?.is_some() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            self.counters = run::counters(&text).map(|counters| (lock, counters));
            let counted = self.counters.as_ref();
            let warning = counted.and_then(|(lock, counters)| Warning::no_waits(lock, counters));
            self.progress.suspend(|| warning.iter().for_each(Warning::print));
        }
        self.progress.step();
        Ok(())
    }

    /// Runs all rounds; stops early, keeping whole rounds, on Ctrl-C.
    fn measure(&mut self, sink: &mut Sink) -> Result<Vec<Series>> {
        let (warmup, runs) = (usize::from(self.args.warmup), usize::from(self.args.runs));
        let mut all: Vec<Series> = self.locks.iter().map(|lock| Series::new(lock)).collect();
        'rounds: for round in 0..warmup + runs {
            for index in shuffled(all.len(), self.args.seed, round) {
                let series = &mut all[index];
                self.progress.say(&match round.checked_sub(warmup) {
                    Some(round) => format!("{} (round {} of {runs})", series.lock, round + 1),
                    None => format!("{} (warm-up)", series.lock),
                });
                if !series.hopeless && !self.has_failed(&series.lock) {
                    let sample = self.run(&series.lock, None)?;
                    series.samples.extend(sample.filter(|_| round >= warmup));
                }
                if interrupt::seen() {
                    break 'rounds;
                }
                if round >= warmup
                    && let Some(sample) = series.samples.get(round - warmup)
                {
                    let (kind, world, round) = ("sample", "process", round - warmup + 1);
                    sink.record(&SampleRecord { kind, world, lock: &series.lock, round, sample })?;
                }
                self.progress.step();
            }
            self.find_hopeless(&mut all);
        }
        self.progress.finish();
        all.retain(|series| !self.has_failed(&series.lock));
        let lengths = all.iter().filter(|series| !series.hopeless).map(|all| all.samples.len());
        let whole = lengths.min().unwrap_or(0);
        all.iter_mut().for_each(|series| series.samples.truncate(whole));
        all.retain(|series| !series.samples.is_empty());
        Ok(all)
    }

    /// Runs the program once; nothing comes back from a failure or a run cut short.
    fn run(&mut self, lock: &str, counters: Option<&Path>) -> Result<Option<Sample>> {
        let complaint = match self.rules.run(&self.target, lock, counters)? {
            Trial::Good(sample, stdout) => match self.check_output(lock, &stdout)? {
                None => return Ok(Some(sample)),
                Some(difference) => format!("printed something else: {difference}"),
            },
            Trial::Bad(complaint) => complaint,
            Trial::Interrupted => return Ok(None),
        };
        self.failures.push(Failure { kind: "failure", lock: lock.to_owned(), sentence: complaint });
        Ok(None)
    }

    /// Marks the locks that need no more rounds.
    fn find_hopeless(&self, all: &mut [Series]) {
        let Some(baseline) = baseline(all).map(|series| series.values()) else { return };
        for series in all {
            let ratios = series.better_than_values(&baseline, self.args.higher_is_better);
            series.hopeless |= ratios.len() >= HOPELESS_ROUNDS
                && ratios.iter().all(|ratio| ratio * HOPELESS_FACTOR < 1.0);
        }
    }

    fn has_failed(&self, lock: &str) -> bool {
        self.failures.iter().any(|failure| failure.lock == lock)
    }

    /// Says where standard output differs from that of the first run, if it does.
    fn check_output(&self, lock: &str, stdout: &[u8]) -> Result<Option<String>> {
        let Some(expected) = &self.expected else { return Ok(None) };
        let found = kept_lines(stdout, self.ignore.as_ref());
        if found == *expected {
            return Ok(None);
        }
        let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
        let show = |lines: &[Vec<u8>]| {
            lines.get(same).map_or_else(|| "missing".into(), |line| quote(line))
        };
        let (number, is, was) = (same + 1, show(&found), show(expected));
        let difference = format!("line {number} is {is} and was {was} in the first run");
        if lock == LIBC {
            bail!(
                "--check-output can't tell: the output varies with the program's own locks \
                 ({difference}); leave lines that vary out with --ignore REGEX"
            );
        }
        Ok(Some(difference))
    }

    /// Prints the ranked table, what failed, the doubts and the verdict.
    fn report(&self, series: &[Series], machine: &Machine, sink: &mut Sink) -> Result<()> {
        let higher = self.args.higher_is_better;
        let mut ranked: Vec<&Series> = series.iter().collect();
        ranked.sort_by(|a, b| {
            let value = |series: &Series| series.value().map_or(0.0, |value| value.median);
            let order = value(a).total_cmp(&value(b));
            if higher { order.reverse() } else { order }
        });
        let baseline = baseline(series);
        if let Some(baseline) = baseline {
            for lock in &ranked {
                sink.record(&self.record(lock, baseline, machine))?;
            }
            sink.csv(&["lock,round,value,wall_s,cpu_s,max_rss_kib".to_owned()])?;
            for line in ranked.iter().flat_map(|lock| csv(lock)) {
                sink.csv(&line)?;
            }
            sink.people(&self.table(&ranked, baseline))?;
            for lost in ranked.iter().filter(|series| series.hopeless) {
                sink.people(&format!(
                    "{} was left out after {} rounds: over {HOPELESS_FACTOR} times worse than {} \
                     in each",
                    lost.lock,
                    lost.samples.len(),
                    baseline.lock
                ))?;
            }
            self.warnings(&ranked).iter().for_each(Warning::print);
        }
        for failure in &self.failures {
            sink.record(failure)?;
            output::complain(&format!("failed: under {}, {}", failure.lock, failure.sentence));
        }
        if !self.failures.is_empty() && ranked.len() < 2 {
            sink.people("No verdict: too few locks came through to compare any.")?;
        }
        let verdict = baseline.and_then(|baseline| verdict::judge(&ranked, baseline, higher));
        if let Some(verdict) = verdict {
            sink.record(&verdict)?;
            sink.people(&verdict.sentence)?;
            if let Some(lock) = verdict.lock.filter(|lock| lock != LIBC) {
                sink.people(&format!("  overlock run {lock} -- {}", self.target.typed()))?;
            }
        }
        Ok(())
    }

    fn record<'a>(
        &'a self,
        series: &'a Series,
        baseline: &'a Series,
        machine: &Machine,
    ) -> ProcessRecord<'a, Sample> {
        let median =
            |figure: fn(&Sample) -> f64| stats::median(&series.each(figure)).unwrap_or_default();
        ProcessRecord {
            kind: "point",
            world: "process",
            workload: self.target.typed(),
            lock: &series.lock,
            policy: "none",
            pcpus: machine.cpus,
            seconds: median(|sample| sample.wall_s),
            samples: &series.samples,
            ops_per_s: Interval::of(&series.each(|sample| 1.0 / sample.wall_s)),
            cpu_s_per_s: median(|sample| sample.cpu_s / sample.wall_s),
            counters: self.counters(&series.lock),
            metric: self.args.metric.as_deref(),
            higher_is_better: self.args.higher_is_better,
            value: series.value(),
            baseline: &baseline.lock,
            of_baseline: series.better_than(baseline, self.args.higher_is_better),
            interval_coverage: stats::coverage(series.samples.len()),
            steal: steal(series),
        }
    }

    fn counters(&self, lock: &str) -> BTreeMap<String, u64> {
        let own = self.counters.iter().find(|(counted, _)| counted == lock);
        own.map(|(_, counters)| counters.clone()).unwrap_or_default()
    }

    fn table(&self, ranked: &[&Series], baseline: &Series) -> String {
        let show = |value: f64| match &self.args.metric {
            Some(_) => count(value),
            None => time(value * 1e9),
        };
        let of = format!("of {}", baseline.lock);
        let what = if self.args.metric.is_some() { "metric" } else { "wall time" };
        let header = ["lock", what, "low", "high", &of, "low", "high", "CPU s", "max RSS MiB"];
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
            row.push(median(|sample| sample.cpu_s));
            row.push(median(|sample| sample.max_rss_kib as f64 / 1024.0));
            table.row(row);
        }
        let rounds = stats::describe(baseline.samples.len());
        format!("{}\n{rounds}; \"{of}\" above 1 is better\n{table}", self.target.typed())
    }

    fn warnings(&self, ranked: &[&Series]) -> Vec<Warning> {
        let mut times = CpuTimes::default();
        let samples = ranked.iter().flat_map(|series| &series.samples);
        samples.for_each(|sample| times += sample.cpu_times);
        let mut warnings: Vec<Warning> =
            Warning::steal(times.steal_share(), "all runs together").into_iter().collect();
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

fn csv(series: &Series) -> Vec<Vec<String>> {
    let line = |(round, sample): (usize, &Sample)| {
        let mut fields = vec![series.lock.clone(), (round + 1).to_string()];
        fields.extend([sample.value, sample.wall_s, sample.cpu_s].map(|v| v.to_string()));
        fields.push(sample.max_rss_kib.to_string());
        fields
    };
    series.samples.iter().enumerate().map(line).collect()
}

fn steal(series: &Series) -> f64 {
    let mut times = CpuTimes::default();
    series.samples.iter().for_each(|sample| times += sample.cpu_times);
    times.steal_share()
}
