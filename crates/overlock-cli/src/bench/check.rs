// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench --check`: the bounds that Overlock promises, judged point by point.
//!
//! See [`bounds`] for when a bound is met or missed.

use super::results::{LockRuns, PointRuns, Results, jain};
use super::summary::{self, CALM_THREADS};
use crate::bounds::{self, Side, Verdict, judge};
use crate::output::Sink;
use crate::stats::Interval;
use crate::units::three;
use anyhow::{Result, bail};
use overlock_bench::Origin;
use overlock_bench::RunSample;
use serde::Serialize;

/// Throughput of the hybrid lock over that of the best peer, at each point and on average.
const HYBRID_EACH: f64 = 0.85;
const HYBRID_MEAN: f64 = 1.0;
/// The same where critical sections and pauses are empty, with a tail no worse than that peer's.
const HYBRID_BARE: f64 = 0.9;
/// Fairness of the hybrid lock at up to 16 threads.
const HYBRID_JAIN: f64 = 0.95;
/// Throughput of the queueing locks over that of a ticket lock that only spins, at 16 threads.
const NO_COLLAPSE: f64 = 10.0;
const NO_COLLAPSE_THREADS: usize = 16;
/// An uncontended pair of the hybrid lock over that of `std`.
const HYBRID_PAIR: f64 = 0.55;
/// Pairs of the others can differ by code alignment alone; 3 % is the largest effect that was seen.
const PAIR: f64 = 1.03;

/// One bound at one place.
#[derive(Debug, Serialize)]
struct Check {
    kind: &'static str,
    bound: &'static str,
    lock: &'static str,
    place: String,
    side: Side,
    limit: f64,
    value: Interval,
    verdict: Verdict,
}

impl Check {
    fn new(
        (bound, side, limit): (&'static str, Side, f64),
        lock: &'static str,
        place: impl ToString,
        values: &[f64],
    ) -> Option<Self> {
        let value = Interval::of(values)?;
        let verdict = judge(value, side, limit);
        let place = place.to_string();
        Some(Check { kind: "check", bound, lock, place, side, limit, value, verdict })
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "  {}  {} of {} {} {}: {} ({}..{}) at {}",
            self.verdict,
            self.bound,
            self.lock,
            self.side,
            three(self.limit),
            three(self.value.median),
            three(self.value.low),
            three(self.value.high),
            self.place
        )
    }
}

/// Judges all results; returns whether no bound was missed.
pub(crate) fn all(results: &Results, sink: &mut Sink) -> Result<bool> {
    let mut checks: Vec<Check> = Vec::new();
    for runs in &results.points {
        checks.extend(hybrid(runs));
        checks.extend(no_collapse(runs));
    }
    checks.extend(hybrid_mean(results));
    checks.extend(hybrid_stall(results));
    checks.extend(pairs(results));
    if checks.is_empty() {
        bail!(
            "--check found nothing to judge: it needs hybrid with some peers, or \
             ticket or queued with spin-ticket at 16 threads"
        );
    }
    let mut lines = vec!["Checks:".to_owned()];
    for check in &checks {
        sink.record(check)?;
        if check.verdict != Verdict::Met {
            lines.push(check.to_string());
        }
    }
    bounds::conclude(lines, checks.iter().map(|check| check.verdict), sink)
}

/// Judges the hybrid lock at one point: throughput and fairness, and the tail where it is
/// measurable.
fn hybrid(runs: &PointRuns) -> Vec<Check> {
    let Some(lock) = runs.find("hybrid") else { return Vec::new() };
    let check = |bound, values: &[f64]| Check::new(bound, "hybrid", runs.point, values);
    let mut checks = Vec::new();
    let is_contended = runs.point.threads > 1;
    let is_bare = runs.point.is_bare() && is_contended;
    if let Some(ratios) = runs.of_best_peer(lock) {
        let limit = if is_bare { HYBRID_BARE } else { HYBRID_EACH };
        checks.extend(check(("throughput over best peer", Side::AtLeast, limit), &ratios));
    }
    if let Some(peer) = runs.best_peer().filter(|_| is_bare) {
        let over = |figure: fn(&RunSample) -> f64| lock.over(peer, figure);
        let tail = over(|sample| sample.wait_p999_ns);
        let stall = over(|sample| sample.longest_stall_ns);
        checks.extend(check(("p99.9 over the best peer's", Side::AtMost, 1.0), &tail));
        checks.extend(check(("longest stall over the best peer's", Side::AtMost, 1.0), &stall));
    }
    if is_contended && runs.point.threads <= CALM_THREADS && runs.point.uneven == 1 {
        checks.extend(check(("Jain index", Side::AtLeast, HYBRID_JAIN), &lock.each(jain)));
    }
    checks
}

/// Judges the longest stall of each round, at any point, over parking_lot's.
fn hybrid_stall(results: &Results) -> Option<Check> {
    let longest = |name: &str| -> Option<Vec<f64>> {
        let locks: Option<Vec<&LockRuns>> = results.points.iter().map(|of| of.find(name)).collect();
        let locks = locks?;
        let rounds = locks.iter().map(|of| of.samples.len()).min()?;
        let stall = |round: usize| locks.iter().map(move |of| of.samples[round].longest_stall_ns);
        Some((0..rounds).map(|round| stall(round).fold(0.0, f64::max)).collect())
    };
    let (ours, theirs) = (longest("hybrid")?, longest("parking-lot")?);
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let bound = ("longest stall over parking-lot's", Side::AtMost, 1.0);
    Check::new(bound, "hybrid", "all points", &ratios)
}

fn hybrid_mean(results: &Results) -> Option<Check> {
    let means = summary::geomeans("hybrid", &results.points);
    let bound = ("geometric mean of throughput over best peer", Side::AtLeast, HYBRID_MEAN);
    Check::new(bound, "hybrid", "all points", &means)
}

/// Queue locks that halt must not collapse where one that spins does.
fn no_collapse(runs: &PointRuns) -> Vec<Check> {
    if runs.point.threads != NO_COLLAPSE_THREADS {
        return Vec::new();
    }
    let Some(spinner) = runs.find("spin-ticket") else { return Vec::new() };
    let bound = ("throughput over spin-ticket", Side::AtLeast, NO_COLLAPSE);
    ["ticket", "queued"]
        .into_iter()
        .filter_map(|name| {
            let ratios = runs.find(name)?.over(spinner, |sample| sample.ops_per_s);
            Check::new(bound, name, runs.point, &ratios)
        })
        .collect()
}

/// Compares an uncontended pair with that of the most similar peer.
fn pairs(results: &Results) -> Vec<Check> {
    let ours = results.pairs.iter().filter(|pair| pair.lock.origin == Origin::Ours);
    ours.filter_map(|pair| {
        let (bound, peer, limit) = match pair.lock.name {
            "ticket" | "native-ticket" => {
                ("uncontended pair over spin-ticket's", "spin-ticket", PAIR)
            }
            "hybrid" => ("uncontended pair over std's", "std", HYBRID_PAIR),
            _ => ("uncontended pair over std's", "std", PAIR),
        };
        let peer = results.pairs.iter().find(|other| other.lock.name == peer)?;
        let samples = pair.samples.iter().zip(&peer.samples);
        let ratios: Vec<f64> = samples.map(|(ours, theirs)| ours / theirs).collect();
        Check::new((bound, Side::AtMost, limit), pair.lock.name, "1 thread", &ratios)
    })
    .collect()
}
