// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lab --check`: the bounds that Overlock promises for virtual CPUs, judged point by point.
//!
//! See [`bounds`] for when a bound is met or missed.

use super::plan::{NO_POLICY, ORACLE, PV_HINT, Point, ROUND_ROBIN, SKIP_SPINNERS};
use super::results::{GroupRuns, PointRuns, ops_per_s, reads_per_s};
use crate::bounds::Side::{self, AtLeast, AtMost};
use crate::bounds::{self, Verdict, judge};
use crate::output::Sink;
use crate::stats::Interval;
use crate::units::three;
use anyhow::{Result, bail};
use overlock_world::PmTimerRule;
use overlock_world::locks::Build;
use serde::Serialize;

/// A lock that only ever spins, over its own throughput at 1x, with 8 vCPUs.
const COLLAPSE: f64 = 0.05;
const COLLAPSE_CPUS: u32 = 8;
/// The hybrid lock over its own throughput at 1x, up to 16x.
const HYBRID: f64 = 0.8;
const HYBRID_OVER: f64 = 16.0;
/// The least served vCPU over the average one, under the hybrid lock, up to 8x.
const LEAST_SERVED: f64 = 0.85;
const LEAST_SERVED_OVER: f64 = 8.0;
/// The paravirtual build, switched off, over the native one, at 1x.
const OFF: f64 = 0.98;
/// Locks in strict order over the measured limit of such locks, and over native ones.
const STRICT: [&str; 2] = ["ticket", "queued"];
const OF_LIMIT: f64 = 0.5;
const OF_NATIVE: f64 = 10.0;
/// Over 1x, where the demand is half of what the hand-overs allow.
const HALF_CONTENDED: f64 = 0.8;
/// The hint over the truth.
const OF_ORACLE: f64 = 0.9;
/// The lock-free read of the PM timer over the one under a mutex, where a read is not an exit.
const OF_MUTEX: f64 = 3.0;

/// One bound at one point.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    kind: &'static str,
    bound: &'static str,
    workload: String,
    point: String,
    side: Side,
    limit: f64,
    value: Interval,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Check {
    /// Returns the bound and its place: the same for all points of a group.
    fn title(&self) -> String {
        format!("  {}: {} is {} {}", self.workload, self.bound, self.side, three(self.limit))
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Interval { median, low, high } = self.value;
        let [median, low, high] = [median, low, high].map(three);
        write!(f, "    {}  {median} ({low}..{high})  {}", self.verdict, self.point)?;
        self.note.as_ref().map_or(Ok(()), |note| write!(f, "; {note}"))
    }
}

/// Judges one group.
pub(super) fn of(group: &GroupRuns) -> Vec<Check> {
    let bounds: &[fn(&GroupRuns, &PointRuns) -> Option<Check>] = &[
        collapse,
        hybrid,
        least_served,
        off,
        of_limit,
        of_native,
        half_contended,
        rule,
        hint,
        timer_of_mutex,
        timer_of_refresh,
    ];
    let each = |bound: &fn(&GroupRuns, &PointRuns) -> Option<Check>| {
        group.points.iter().filter_map(|runs| bound(group, runs)).collect::<Vec<_>>()
    };
    bounds.iter().flat_map(each).collect()
}

/// Prints all verdicts; returns whether no bound was missed.
pub(super) fn tell(checks: &[Check], sink: &mut Sink) -> Result<bool> {
    if checks.is_empty() {
        bail!("--check found nothing to judge; leave the lists out, and it measures what it needs");
    }
    let mut lines = vec!["Checks:".to_owned()];
    let mut title = String::new();
    for check in checks {
        sink.record(check)?;
        if title != check.title() {
            title = check.title();
            lines.push(title.clone());
        }
        lines.push(check.to_string());
    }
    bounds::conclude(lines, checks.iter().map(|check| check.verdict), sink)
}

fn check(
    group: &GroupRuns,
    runs: &PointRuns,
    (bound, side, limit): (&'static str, Side, f64),
    value: Option<Interval>,
) -> Option<Check> {
    let value = value?;
    Some(Check {
        kind: "check",
        bound,
        workload: group.title.clone(),
        point: runs.point.to_string(),
        side,
        limit,
        value,
        verdict: judge(value, side, limit),
        note: None,
    })
}

fn over(point: &Point) -> f64 {
    f64::from(point.cpus) / f64::from(point.pcpus)
}

/// Returns whether `runs` is of this lock, without a policy, where vCPUs outnumber pCPUs.
fn crowded(runs: &PointRuns, locks: &[&str]) -> bool {
    let Point { lock, policy, .. } = &runs.point;
    locks.contains(&lock.name.as_str()) && policy == NO_POLICY && over(&runs.point) > 1.0
}

/// Returns whether vCPUs do nothing but ask for the one lock.
fn saturated(group: &GroupRuns) -> bool {
    let profile = &group.profile;
    profile.locks == 1 && profile.sections > 0 && profile.think_ns == 0
}

fn of_1x(group: &GroupRuns, runs: &PointRuns) -> Option<Interval> {
    runs.over(group.at_1x(&runs.point)?, ops_per_s)
}

fn collapse(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let here = saturated(group) && crowded(runs, &["native-ticket"]);
    (here && runs.point.cpus == COLLAPSE_CPUS).then_some(())?;
    check(group, runs, ("native throughput over 1x", AtMost, COLLAPSE), of_1x(group, runs))
}

fn hybrid(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let here = saturated(group) && crowded(runs, &["hybrid"]);
    (here && over(&runs.point) <= HYBRID_OVER).then_some(())?;
    check(group, runs, ("throughput over 1x", AtLeast, HYBRID), of_1x(group, runs))
}

fn least_served(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let here = saturated(group) && crowded(runs, &["hybrid"]);
    (here && over(&runs.point) <= LEAST_SERVED_OVER).then_some(())?;
    let value = runs.interval(PointRuns::least_served);
    check(group, runs, ("least served vCPU over average", AtLeast, LEAST_SERVED), Some(value))
}

fn off(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let at_1x = runs.point.cpus == runs.point.pcpus;
    (saturated(group) && at_1x && runs.point.lock.build() == Build::Off).then_some(())?;
    let value = runs.over(group.built(&runs.point, Build::Native)?, ops_per_s);
    check(group, runs, ("switched off over native", AtLeast, OFF), value)
}

fn of_limit(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    (saturated(group) && crowded(runs, &STRICT)).then_some(())?;
    let value = runs.over(group.limit(&runs.point)?, ops_per_s);
    check(group, runs, ("throughput over the hand-over limit", AtLeast, OF_LIMIT), value)
}

fn of_native(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    (saturated(group) && crowded(runs, &STRICT)).then_some(())?;
    let native = group.native_ticket(&runs.point)?;
    let bound = ("throughput over native-ticket", AtLeast, OF_NATIVE);
    let limit = group.limit(&runs.point).and_then(|limit| limit.over(native, ops_per_s));
    let note = limit.map(|limit| {
        format!("the hand-over limit itself is {} of native-ticket", three(limit.median))
    });
    let check = check(group, runs, bound, runs.over(native, ops_per_s))?;
    Some(Check { note, ..check })
}

fn half_contended(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let half = group.contention == Some(0.5);
    (half && crowded(runs, &["ticket", "queued", "hybrid"])).then_some(())?;
    check(group, runs, ("throughput over 1x", AtLeast, HALF_CONTENDED), of_1x(group, runs))
}

/// Compares the rule of 2012 with the one before it.
fn rule(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    (runs.point.policy == SKIP_SPINNERS).then_some(())?;
    let value = runs.over(group.under(&runs.point, ROUND_ROBIN)?, ops_per_s);
    check(group, runs, ("throughput over round-robin", AtLeast, 1.0), value)
}

fn hint(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    (runs.point.policy == PV_HINT).then_some(())?;
    let value = runs.over(group.under(&runs.point, ORACLE)?, ops_per_s);
    check(group, runs, ("throughput over oracle", AtLeast, OF_ORACLE), value)
}

/// Compares the lock-free read with that under `rule`, where vCPUs outnumber pCPUs.
fn timer(
    group: &GroupRuns,
    runs: &PointRuns,
    rule: PmTimerRule,
    bound: (&'static str, Side, f64),
) -> Option<Check> {
    let lock_free = runs.point.timer == PmTimerRule::LockFree;
    let here = group.profile.timer_reads > 0 && lock_free && over(&runs.point) > 1.0;
    let other = group.with_timer(&runs.point, rule).filter(|_| here)?;
    check(group, runs, bound, runs.over(other, reads_per_s))
}

fn timer_of_mutex(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    let threads = runs.samples.first().is_some_and(|sample| sample.record.world == "threads");
    threads.then_some(())?;
    timer(group, runs, PmTimerRule::Mutex, ("reads of the timer over mutex", AtLeast, OF_MUTEX))
}

fn timer_of_refresh(group: &GroupRuns, runs: &PointRuns) -> Option<Check> {
    timer(group, runs, PmTimerRule::Refresh, ("reads of the timer over refresh", AtLeast, 1.0))
}
