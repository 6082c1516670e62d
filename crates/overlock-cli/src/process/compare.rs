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
use super::report;
use super::world::Program;
use crate::interrupt;
use crate::outcome::Outcome;
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::rounds::Rounds;
use crate::warnings::Warning;
use anyhow::{Context, Result, bail};
use overlock_bench::experiment::Plan;
use overlock_bench::{Failed, Job};
use overlock_programs::{
    self as launch, Good, Input, LIBC, NONE, Rules, Shared, Target, Waits, Watch, allowed_cpus,
};
use overlock_results::Run;
use overlock_results::judge::rank;
use overlock_results::row::{PROCESS, Point, Programs, Row, SampleRow};
use regex::{Regex, bytes};
use std::time::Duration;

/// A run counts as hung when it takes this many times as long as the first one, ...
const HUNG_FACTOR: f64 = 20.0;
/// ... but not before this many seconds.
const HUNG_SECONDS: f64 = 30.0;

pub(crate) fn main(args: &CompareArgs) -> Result<Outcome> {
    let locks = chosen(&args.locks)?;
    let metric = args.metric.as_deref().map(Regex::new).transpose();
    let rules = Rules {
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

    let progress = Progress::new(2);
    progress.say("first run, with its own locks");
    let input = match Input::take(&|text| output::complain(&format!("overlock: {text}"))) {
        Err(_) if interrupt::seen() => None,
        input => Some(input?),
    };
    let mut world = Program {
        rules,
        target,
        input: input.unwrap_or(Input::Nothing),
        expected: None,
        pcpus: allowed_cpus(),
    };
    let Some(pilot) = pilot(&world)? else {
        progress.finish();
        interrupt::tell(false);
        return Ok(Outcome::Interrupted);
    };
    progress.step();
    if world.rules.timeout.is_none() {
        let limit = (pilot.run.seconds * HUNG_FACTOR).max(HUNG_SECONDS).ceil();
        world.rules.timeout = Some(Duration::from_secs_f64(limit));
    }
    world.expected = args.check_output.then(|| Expected::new(&pilot.stdout, ignore));
    let plan = world.plan(&locks, args.runs)?;
    let mut rounds = Rounds::new(&plan, &world, args.seed, progress);
    let waits = probe(&mut rounds, &world, &plan)?;
    let programs = Programs {
        workload: world.target.typed(),
        pcpus: machine.cpus.and_then(|cpus| u32::try_from(cpus).ok()),
        metric: args.metric.clone(),
        higher_is_better: args.higher_is_better,
        library: world.target.library.as_ref().map(|file| file.path.display().to_string()),
    };
    let mut made = |job: &Job, round, run: &Run| {
        let (world, lock, run) = (PROCESS.into(), job.lock.clone(), run.clone());
        sink.record(&Row::Sample(Box::new(SampleRow { world, lock, round, run })))
    };
    let taken = rounds.take(&plan.groups[0], &mut made)?;
    rounds.progress.finish();
    let of =
        |(index, runs): (usize, _)| programs.point(&locks[index], runs, waits.of(&locks[index]));
    let mut points: Vec<Point> = taken.runs.into_iter().map(of).collect();
    rank(&mut points);
    report::tell(&world.target, &rounds.failures, &waits, &points, &mut sink)?;
    if let Some(why) = rounds.gave_up {
        bail!(why);
    }
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

fn pilot(world: &Program) -> Result<Option<Good>> {
    if interrupt::seen() {
        return Ok(None);
    }
    match world.trial(LIBC, None) {
        Ok(good) => Ok(Some(good)),
        Err(Failed::Subject(complaint)) => {
            bail!(
                "there is nothing to compare: {}, with its own locks, {complaint}",
                world.target.typed()
            )
        }
        Err(Failed::World(said)) => bail!(said),
        Err(Failed::Cancelled) => Ok(None),
    }
}

/// Runs the program once, and warns if it never waits for one of our locks: then the figures of
/// the rounds will only show noise.
fn probe(rounds: &mut Rounds<'_>, world: &Program, plan: &Plan) -> Result<Waits> {
    let mut waits = Waits::default();
    if let Some(job) = plan.jobs().find(|job| ![LIBC, NONE].contains(&&*job.lock)) {
        rounds.progress.say(&format!("{}, counting", job.lock));
        let shared = Shared::new()?;
        let watch = Watch::start(&world.target);
        let good = world.trial(&job.lock, Some(&shared));
        let (counted, blind) = (shared.read(), watch.end());
        match good {
            Ok(good) => {
                if !counted.is_loaded() {
                    bail!("{}", world.target.unloaded(&counted));
                }
                let seen = Seen {
                    program: &world.target.path,
                    counted: &counted,
                    blind: &blind,
                    wall_s: good.run.seconds,
                    cpu_s: good.run.cpu_s.unwrap_or_default(),
                };
                let doubts = seen.doubts(&job.lock);
                rounds.progress.suspend(|| {
                    doubts.into_iter().for_each(|doubt| Warning(doubt).print());
                });
                waits = Waits::new(job.lock.clone(), Some(counted.sums()), blind);
            }
            Err(Failed::Subject(said)) => rounds.fail(job, &said),
            Err(Failed::World(said)) => bail!(said),
            Err(Failed::Cancelled) => {}
        }
    }
    rounds.progress.step();
    Ok(waits)
}
