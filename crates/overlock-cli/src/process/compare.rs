// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock compare`: one program, several locks, taking turns.
//!
//! First the program runs once unmodified: if that fails, the comparison can tell nothing about
//! locks. Then it runs once with counters, which show whether it waits for locks at all. The rounds
//! follow, with counters too, for the longest stall of each run. Beside the locks, each round runs
//! the program under the preload library that replaces nothing ([`NONE`]): the time that this takes
//! longer is the price of preloading, not of a lock.

use super::args::CompareArgs;
use super::conclusion::Seen;
use super::expect::Expected;
use super::report::Report;
use super::rounds::Rounds;
use crate::interrupt;
use crate::outcome::Outcome;
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::warnings::Warning;
use anyhow::{Context, Result, bail};
use overlock_programs::{
    self as launch, Good, Input, LIBC, NONE, Rules, Shared, Target, Trial, Waits, Watch,
};
use regex::{Regex, bytes};
use std::time::Duration;

/// A run counts as hung when it takes this many times as long as the first one, ...
const HUNG_FACTOR: f64 = 20.0;
/// ... but not before this many seconds.
const HUNG_SECONDS: f64 = 30.0;

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
    let mut sink = Sink::open(args.output.json, args.output.out.as_deref())?;
    interrupt::watch()?;
    let machine = sink.begin(Some(args.seed))?;
    Warning::busy_machine(&machine).iter().for_each(Warning::print);

    let count = u64::from(args.warmup) + u64::from(args.runs);
    let progress = Progress::new(2 + count * locks.len() as u64);
    progress.say("first run, with its own locks");
    let input = match Input::take(&|text| output::complain(&format!("overlock: {text}"))) {
        Err(_) if interrupt::seen() => None,
        input => Some(input?),
    };
    let pilot = input.as_ref().map(|input| pilot(&rules, &target, input)).transpose()?;
    let (Some(input), Some(pilot)) = (input, pilot.flatten()) else {
        progress.finish();
        interrupt::tell(false);
        return Ok(Outcome::Interrupted);
    };
    progress.step();
    if rules.timeout.is_none() {
        let limit = (pilot.run.seconds * HUNG_FACTOR).max(HUNG_SECONDS).ceil();
        rules.timeout = Some(Duration::from_secs_f64(limit));
    }
    let expected = args.check_output.then(|| Expected::new(&pilot.stdout, ignore));
    let (failures, waits) = (Vec::new(), Waits::default());
    let mut rounds =
        Rounds { args, rules, target, locks, expected, failures, progress, waits, input };
    probe(&mut rounds)?;
    let series = rounds.measure(&mut sink)?;
    let points = rounds.points(&series, machine.cpus);
    let beaten = series.iter().filter(|of| of.beaten).map(|of| of.lock.as_str()).collect();
    let Rounds { args, target, failures, waits, .. } = &rounds;
    Report { args, target, failures, waits, beaten, points: &points }.tell(&mut sink)?;
    interrupt::tell(!points.is_empty());
    sink.end(if interrupt::seen() {
        Outcome::Interrupted
    } else if rounds.failures.is_empty() {
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

/// Runs the program once, and warns if it never waits for one of our locks: then the figures of
/// the rounds will only show noise.
fn probe(rounds: &mut Rounds<'_>) -> Result<()> {
    let ours = |lock: &&String| ![LIBC, NONE].contains(&lock.as_str());
    let Some(lock) = rounds.locks.iter().find(ours).cloned() else {
        rounds.progress.step();
        return Ok(());
    };
    rounds.progress.say(&format!("{lock}, counting"));
    let shared = Shared::new()?;
    let watch = Watch::start(&rounds.target);
    let good = rounds.run_in(&lock, Some(&shared))?;
    let (counted, blind) = (shared.read(), watch.end());
    if let Some(good) = good {
        if !counted.is_loaded() {
            bail!("{}", rounds.target.unloaded(&counted));
        }
        let seen = Seen {
            program: &rounds.target.path,
            counted: &counted,
            blind: &blind,
            wall_s: good.run.seconds,
            cpu_s: good.run.cpu_s.unwrap_or_default(),
        };
        let doubts = seen.doubts(&lock);
        rounds.progress.suspend(|| {
            doubts.into_iter().for_each(|doubt| {
                Warning(doubt).print();
            })
        });
        rounds.waits = Waits::new(lock, Some(counted.sums()), blind);
    }
    rounds.progress.step();
    Ok(())
}
