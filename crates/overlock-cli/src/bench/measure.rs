//! From an experiment to its rows, in any world: the plan, group by group.

use super::args::BenchArgs;
use super::tables;
use crate::interrupt;
use crate::output::Sink;
use crate::progress::Progress;
use crate::rounds::{Rounds, Taken};
use anyhow::{Result, bail};
use overlock_bench::experiment::{Experiment, Plan};
use overlock_bench::{Failed, Job, World};
use overlock_results::judge::explain;
use overlock_results::row::{Failure, Pair, Point, Row, relate};

#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) points: Vec<Point>,
    pub(super) pairs: Vec<Pair>,
    pub(super) failures: Vec<Failure>,
}

/// Tells what is to be known before anything is measured.
pub(super) type Before<'a> = &'a mut dyn FnMut(&mut Sink) -> Result<()>;

/// Measures an experiment, and reports each group as soon as it is done. On Ctrl-C it stops early,
/// and keeps the whole rounds of each group.
pub(super) fn all(
    experiment: &Experiment,
    args: &BenchArgs,
    world: &dyn World,
    seed: u64,
    sink: &mut Sink,
    before: Before<'_>,
) -> Result<Measured> {
    let progress = Progress::new(0);
    progress.say("starts");
    let planned = experiment.plan(world, seed, |job| {
        progress.say("how many hand-overs there can be");
        Ok(world.run(job, interrupt::flag())?.ops_per_s)
    });
    let mut plan = match planned {
        Ok(plan) => plan,
        Err(Failed::Cancelled) => return Ok(Measured::default()),
        Err(failed) => bail!("{failed}"),
    };
    if let Some(shard) = args.shard {
        let mut at = 0..;
        plan.groups.retain(|_| at.next().is_some_and(|at| shard.has(at)));
    }
    for job in plan.groups.iter_mut().flatten() {
        (job.logged, job.counted) = (args.explain, args.explain);
    }
    progress.suspend(|| before(sink))?;
    groups(&plan, args, Rounds::new(&plan, world, seed, progress), sink)
}

fn groups(
    plan: &Plan,
    args: &BenchArgs,
    mut rounds: Rounds<'_>,
    sink: &mut Sink,
) -> Result<Measured> {
    if !rounds.ahead(plan)? {
        return Ok(Measured::default());
    }
    let world = rounds.world;
    // Each point gets a line instead of a table: there are many, and nobody named them.
    let is_long = !world.takers().has_host() && plan.groups.len() > 8 && !args.explain;
    let mut points = Vec::new();
    for group in &plan.groups {
        let taken = rounds.take(group, &mut |_, _, _| Ok(()))?;
        let made = points_of(group, taken, args, &rounds, sink)?;
        if !made.is_empty() {
            let text = tables::group(&made, world, points.is_empty(), is_long);
            rounds.progress.suspend(|| -> Result<()> {
                for point in &made {
                    sink.record(&Row::Point(Box::new(point.clone())))?;
                }
                sink.people(&text)?;
                if args.explain && world.takers().has_host() {
                    sink.people(&tables::explanations(&made))?;
                }
                Ok(())
            })?;
            points.extend(made);
        }
        if rounds.is_over() {
            break;
        }
    }
    let (pairs, failures) = rounds.end(sink)?;
    Ok(Measured { points, pairs, failures })
}

fn points_of(
    group: &[Job],
    taken: Taken,
    args: &BenchArgs,
    rounds: &Rounds<'_>,
    sink: &mut Sink,
) -> Result<Vec<Point>> {
    let world = rounds.world;
    let mut points = Vec::new();
    for (index, samples) in taken.runs {
        let job = &group[index];
        let point = overlock_bench::point_of(world.name(), job, samples);
        points.push(Point { floor_ns: taken.floor_ns, ..point });
        if let Some(span) = args.timeline.filter(|_| world.takers().has_host()) {
            // Nothing else is taken from this run, because recording takes time.
            let timed = Job { timeline_ns: span.0, ..job.clone() };
            let of = rounds.timeline(&timed)?;
            let row = of
                .and_then(|run| overlock_bench::timeline_of(world.name(), job, run, points.last()));
            row.map_or(Ok(()), |row| sink.record(&Row::Timeline(Box::new(row))))?;
        }
    }
    relate(&mut points);
    if args.explain && world.takers().has_host() {
        points.iter_mut().for_each(|point| point.explanation = explain(point));
    }
    Ok(points)
}
