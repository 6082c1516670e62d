// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock compare`: one program, several locks, taking turns.
//!
//! First the program runs once unmodified: if that fails, the comparison can tell nothing about
//! locks. Then it runs once with counters, which show whether it waits for locks at all. The rounds
//! follow, with counters too, for the longest stall of each run. Beside the locks, each round runs
//! the program under the preload library that replaces nothing ([`NONE`]): the time that this takes
//! longer is the price of preloading, not of a lock. A lock under which the program crashes, hangs,
//! prints something else or loses its figure is reported and left out from then on; the others go
//! on.

use super::conclusion::Seen;
use super::expect::Expected;
use super::report::{self, Report};
use super::verdict::Series;
use crate::args::CompareArgs;
use crate::interrupt;
use crate::machine::observe;
use crate::outcome::Outcome;
use crate::output;
use crate::output::Sink;
use crate::progress::Progress;
use crate::shuffle::shuffled;
use crate::warnings::Warning;
use anyhow::{Context, Result, bail};
use overlock_launch::{
    self as launch, Input, LIBC, NONE, Rules, Sample, Shared, Target, Trial, Waits, Watch,
};
use overlock_world::clock::Stamps;
use overlock_world::row::{Head, Row};
use regex::{Regex, bytes};
use serde::Serialize;
use std::time::Duration;

/// A run counts as hung when it takes this many times as long as the first one, ...
const HUNG_FACTOR: f64 = 20.0;
/// ... but not before this many seconds.
const HUNG_SECONDS: f64 = 30.0;

/// A lock this many times worse than the baseline in every one of the first rounds is left out: its
/// exact percentage changes no decision, and would take as long as all other rounds together.
pub(super) const BEATEN_FACTOR: f64 = 5.0;
const BEATEN_ROUNDS: usize = 3;

/// After this many rounds the comparison stops if more would tell no more.
pub(super) const FEW_ROUNDS: usize = 3;

/// A lock under which the program failed.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    kind: &'static str,
    pub(super) lock: String,
    pub(super) sentence: String,
}

/// One run, written as soon as it ends.
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
        metric: metric.context("--metric is not a regular expression")?,
        any_exit_code: args.any_exit_code,
        timeout: args.timeout.map(Duration::from_secs_f64),
    };
    let ignore = args.ignore.as_deref().map(bytes::Regex::new).transpose();
    let ignore = ignore.context("--ignore is not a regular expression")?;
    let target = Target::new(&args.command, &locks)?;
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let machine = observe(&Stamps::calibrate());
    let head = Head { seed: Some(args.seed), machine: machine.clone(), ..output::head() };
    sink.row(&Row::Run(head))?;
    Warning::busy_machine(&machine).iter().for_each(Warning::print);

    let rounds = u64::from(args.warmup) + u64::from(args.runs);
    let progress = Progress::new(2 + rounds * locks.len() as u64);
    progress.say("first run, with its own locks");
    let input = match Input::take(&|text| output::complain(&format!("overlock: {text}"))) {
        Err(_) if interrupt::seen() => {
            progress.finish();
            interrupt::tell_that_nothing_is_done();
            return Ok(Outcome::Interrupted);
        }
        input => input?,
    };
    let Some((pilot, stdout)) = pilot(&rules, &target, &input)? else {
        progress.finish();
        interrupt::tell_that_nothing_is_done();
        return Ok(Outcome::Interrupted);
    };
    progress.step();
    if rules.timeout.is_none() {
        let limit = (pilot.wall_s * HUNG_FACTOR).max(HUNG_SECONDS).ceil();
        rules.timeout = Some(Duration::from_secs_f64(limit));
    }
    let expected = args.check_output.then(|| Expected::new(&stdout, ignore));
    let (failures, waits) = (Vec::new(), Waits::default());
    let mut compare =
        Compare { args, rules, target, locks, expected, failures, progress, waits, input };
    compare.probe()?;
    let series = compare.measure(&mut sink)?;
    let Compare { args, target, failures, waits, .. } = &compare;
    let machine = &machine;
    Report { args, target, failures, waits, machine, series: &series }.tell(&mut sink)?;
    interrupt::tell(!series.is_empty());
    sink.end(if interrupt::seen() {
        Outcome::Interrupted
    } else if compare.failures.is_empty() {
        Outcome::Fine
    } else {
        Outcome::CheckFailed
    })
}

/// Checks the names, and adds the library that replaces nothing where locks are compared with libc.
fn chosen(names: &[String]) -> Result<Vec<String>> {
    let mut locks: Vec<String> = Vec::new();
    for name in names {
        launch::known(name)?;
        if locks.contains(name) {
            bail!(
                "--locks has {name} twice, but comparing a lock with itself tells nothing; name \
                 each once"
            );
        }
        locks.push(name.clone());
    }
    match &locks[..] {
        [only] => bail!(
            "there is nothing to compare {only} with; name two locks, as in --locks libc,hybrid"
        ),
        _ if !locks.iter().any(|lock| lock == NONE) => locks.push(NONE.to_owned()),
        _ => {}
    }
    Ok(locks)
}

/// Runs the program once unmodified; returns nothing if Ctrl-C came.
fn pilot(rules: &Rules, target: &Target, input: &Input) -> Result<Option<(Sample, Vec<u8>)>> {
    match rules.run(target, LIBC, input, None)? {
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

/// A comparison under way.
struct Compare<'a> {
    args: &'a CompareArgs,
    rules: Rules,
    target: Target,
    locks: Vec<String>,
    expected: Option<Expected>,
    failures: Vec<Failure>,
    progress: Progress,
    waits: Waits,
    input: Input,
}

impl Compare<'_> {
    /// Runs the program once, and warns if it never waits for one of our locks: then the figures of
    /// the rounds will only show noise.
    fn probe(&mut self) -> Result<()> {
        let ours = |lock: &&String| ![LIBC, NONE].contains(&lock.as_str());
        let Some(lock) = self.locks.iter().find(ours).cloned() else {
            self.progress.step();
            return Ok(());
        };
        self.progress.say(&format!("{lock}, counting"));
        let shared = Shared::new()?;
        let watch = Watch::start(&self.target);
        let sample = self.run_in(&lock, Some(&shared))?;
        let (counted, blind) = (shared.read(), watch.end());
        if let Some(sample) = sample {
            if !counted.is_loaded() {
                bail!("{}", self.target.unloaded(&counted));
            }
            let seen = Seen {
                program: &self.target.path,
                counted: &counted,
                blind: &blind,
                wall_s: sample.wall_s,
                cpu_s: sample.cpu_s,
            };
            let doubts = seen.doubts(&lock);
            self.progress.suspend(|| {
                doubts.into_iter().for_each(|doubt| {
                    Warning::Waits(doubt).print();
                })
            });
            self.waits = Waits::new(lock, Some(counted.sums()), blind);
        }
        self.progress.step();
        Ok(())
    }

    /// Runs all rounds. On Ctrl-C it stops early and keeps the whole rounds.
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
                if !series.beaten && !self.has_failed(&series.lock) {
                    let sample = self.run(&series.lock)?;
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
            self.find_beaten(&mut all);
            if round + 1 >= warmup + FEW_ROUNDS && self.is_pointless(&all) {
                break;
            }
        }
        self.progress.finish();
        all.retain(|series| !self.has_failed(&series.lock));
        let lengths = all.iter().filter(|series| !series.beaten).map(|all| all.samples.len());
        let whole = lengths.min().unwrap_or(0);
        all.iter_mut().for_each(|series| series.samples.truncate(whole));
        all.retain(|series| !series.samples.is_empty());
        Ok(all)
    }

    /// Returns whether more rounds would tell no more: no thread ever waits, or the figure never
    /// varies.
    fn is_pointless(&self, all: &[Series]) -> bool {
        let samples = || all.iter().flat_map(|series| &series.samples);
        let mut values = samples().map(|sample| sample.value);
        let first = values.next();
        let nothing_waits = self.waits.replaced() == Some(0)
            && samples().all(|sample| sample.waits.unwrap_or(0) == 0);
        nothing_waits || values.all(|value| Some(value) == first)
    }

    /// Runs the program once; returns nothing after a failure or a run cut short.
    fn run(&mut self, lock: &str) -> Result<Option<Sample>> {
        let shared = if lock == LIBC { None } else { Some(Shared::new()?) };
        self.run_in(lock, shared.as_ref())
    }

    fn run_in(&mut self, lock: &str, shared: Option<&Shared>) -> Result<Option<Sample>> {
        let complaint = match self.rules.run(&self.target, lock, &self.input, shared)? {
            Trial::Good(sample, stdout) => match self.difference(lock, &stdout)? {
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
    fn find_beaten(&self, all: &mut [Series]) {
        if self.waits.replaced() == Some(0) {
            // The difference is noise, and three rounds of it prove nothing.
            return;
        }
        let Some(baseline) = report::baseline(all).map(|series| series.values()) else { return };
        for series in all {
            let ratios = series.better_than_values(&baseline, self.args.higher_is_better);
            series.beaten |= ratios.len() >= BEATEN_ROUNDS
                && ratios.iter().all(|ratio| ratio * BEATEN_FACTOR < 1.0);
        }
    }

    fn has_failed(&self, lock: &str) -> bool {
        self.failures.iter().any(|failure| failure.lock == lock)
    }

    /// Describes where standard output differs from that of the first run, if it must not differ.
    fn difference(&self, lock: &str, stdout: &[u8]) -> Result<Option<String>> {
        let difference = self.expected.as_ref().and_then(|expected| expected.difference(stdout));
        match difference {
            Some(difference) if lock == LIBC => bail!(
                "--check-output can't tell: the output varies with the program's own locks \
                 ({difference}); leave lines that vary out with --ignore REGEX"
            ),
            difference => Ok(difference),
        }
    }
}
