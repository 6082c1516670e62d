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
use super::report::{BEATEN_FACTOR, Report};
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
use overlock_judge::{baseline, rank};
use overlock_launch::{
    self as launch, Good, Input, LIBC, NONE, Rules, Shared, Target, Trial, Waits, Watch,
};
use overlock_world::Run;
use overlock_world::clock::Stamps;
use overlock_world::row::{Failure, Head, PROCESS, Point, Programs, Row, SampleRow};
use regex::{Regex, bytes};
use std::time::Duration;

/// A run counts as hung when it takes this many times as long as the first one, ...
const HUNG_FACTOR: f64 = 20.0;
/// ... but not before this many seconds.
const HUNG_SECONDS: f64 = 30.0;

/// A lock that is much worse than the baseline in this many rounds is left out.
const BEATEN_ROUNDS: usize = 3;

/// After this many rounds the comparison stops if more would tell no more.
const FEW_ROUNDS: usize = 3;

/// One lock: `runs[i]` is from round `i`.
#[derive(Debug)]
struct Series {
    lock: String,
    runs: Vec<Run>,
    /// Whether a thread has waited for a lock that can be replaced.
    has_waited: bool,
    /// So bad that it was left out after some rounds.
    beaten: bool,
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
    let Some(pilot) = pilot(&rules, &target, &input)? else {
        progress.finish();
        interrupt::tell_that_nothing_is_done();
        return Ok(Outcome::Interrupted);
    };
    progress.step();
    if rules.timeout.is_none() {
        let limit = (pilot.run.seconds * HUNG_FACTOR).max(HUNG_SECONDS).ceil();
        rules.timeout = Some(Duration::from_secs_f64(limit));
    }
    let expected = args.check_output.then(|| Expected::new(&pilot.stdout, ignore));
    let (failures, waits) = (Vec::new(), Waits::default());
    let mut compare =
        Compare { args, rules, target, locks, expected, failures, progress, waits, input };
    compare.probe()?;
    let series = compare.measure(&mut sink)?;
    let points = compare.points(&series, machine.cpus);
    let beaten = series.iter().filter(|of| of.beaten).map(|of| of.lock.as_str()).collect();
    let Compare { args, target, failures, waits, .. } = &compare;
    Report { args, target, failures, waits, beaten, points: &points }.tell(&mut sink)?;
    interrupt::tell(!points.is_empty());
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
fn pilot(rules: &Rules, target: &Target, input: &Input) -> Result<Option<Good>> {
    match rules.run(target, LIBC, input, None)? {
        Trial::Good(good) => Ok(Some(*good)),
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
        let good = self.run_in(&lock, Some(&shared))?;
        let (counted, blind) = (shared.read(), watch.end());
        if let Some(good) = good {
            if !counted.is_loaded() {
                bail!("{}", self.target.unloaded(&counted));
            }
            let seen = Seen {
                program: &self.target.path,
                counted: &counted,
                blind: &blind,
                wall_s: good.run.seconds,
                cpu_s: good.run.cpu_s.unwrap_or_default(),
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
        let new = |lock: &String| Series {
            lock: lock.clone(),
            runs: Vec::new(),
            has_waited: false,
            beaten: false,
        };
        let mut all: Vec<Series> = self.locks.iter().map(new).collect();
        'rounds: for round in 0..warmup + runs {
            for index in shuffled(all.len(), self.args.seed, round) {
                let series = &mut all[index];
                self.progress.say(&match round.checked_sub(warmup) {
                    Some(round) => format!("{} (round {} of {runs})", series.lock, round + 1),
                    None => format!("{} (warm-up)", series.lock),
                });
                if !series.beaten && !self.has_failed(&series.lock) {
                    let good = self.run(&series.lock)?;
                    if let Some(good) = good.filter(|_| round >= warmup) {
                        series.has_waited |= good.waits > Some(0);
                        series.runs.push(good.run);
                    }
                }
                if interrupt::seen() {
                    break 'rounds;
                }
                if round >= warmup
                    && let Some(run) = series.runs.get(round - warmup)
                {
                    let (world, lock, run) = (PROCESS.into(), series.lock.clone(), run.clone());
                    let round = round - warmup + 1;
                    sink.row(&Row::Sample(Box::new(SampleRow { world, lock, round, run })))?;
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
        let lengths = all.iter().filter(|series| !series.beaten).map(|all| all.runs.len());
        let whole = lengths.min().unwrap_or(0);
        all.iter_mut().for_each(|series| series.runs.truncate(whole));
        all.retain(|series| !series.runs.is_empty());
        Ok(all)
    }

    /// Returns whether more rounds would tell no more: no thread ever waits, or the figure never
    /// varies.
    fn is_pointless(&self, all: &[Series]) -> bool {
        let mut figures = all.iter().flat_map(|series| &series.runs).map(Run::figure);
        let first = figures.next();
        let nothing_waits =
            self.waits.replaced() == Some(0) && !all.iter().any(|series| series.has_waited);
        nothing_waits || figures.all(|figure| Some(figure) == first)
    }

    /// Returns the row of each lock, the best first.
    fn points(&self, all: &[Series], cpus: Option<u64>) -> Vec<Point> {
        let programs = Programs {
            workload: self.target.typed(),
            pcpus: cpus.and_then(|cpus| u32::try_from(cpus).ok()),
            metric: self.args.metric.clone(),
            higher_is_better: self.args.higher_is_better,
            library: self.target.library.as_ref().map(|file| file.path.display().to_string()),
        };
        let point =
            |of: &Series| programs.point(&of.lock, of.runs.clone(), self.waits.of(&of.lock));
        let mut points = all.iter().map(point).collect();
        rank(&mut points);
        points
    }

    /// Runs the program once; returns nothing after a failure or a run cut short.
    fn run(&mut self, lock: &str) -> Result<Option<Good>> {
        let shared = if lock == LIBC { None } else { Some(Shared::new()?) };
        self.run_in(lock, shared.as_ref())
    }

    fn run_in(&mut self, lock: &str, shared: Option<&Shared>) -> Result<Option<Good>> {
        let complaint = match self.rules.run(&self.target, lock, &self.input, shared)? {
            Trial::Good(good) => match self.difference(lock, &good.stdout)? {
                None => return Ok(Some(*good)),
                Some(difference) => format!("printed something else: {difference}"),
            },
            Trial::Bad(complaint) => complaint,
            Trial::Interrupted => return Ok(None),
        };
        let lock = Some(lock.to_owned());
        self.failures.push(Failure { lock, point: None, sentence: complaint });
        Ok(None)
    }

    /// Marks the locks that need no more rounds.
    fn find_beaten(&self, all: &mut [Series]) {
        if self.waits.replaced() == Some(0) {
            // The difference is noise, and three rounds of it prove nothing.
            return;
        }
        let points = self.points(all, None);
        for point in points.iter().filter(|point| point.samples.len() >= BEATEN_ROUNDS) {
            let Some(base) = baseline(&points) else { return };
            let is_worse = point.better_than(base).iter().all(|of| of * BEATEN_FACTOR < 1.0);
            let series = all.iter_mut().filter(|series| series.lock == point.lock && is_worse);
            series.for_each(|series| series.beaten = true);
        }
    }

    fn has_failed(&self, lock: &str) -> bool {
        self.failures.iter().any(|failure| failure.lock.as_deref() == Some(lock))
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
