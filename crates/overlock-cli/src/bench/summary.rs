// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line for each lock over all points.

use super::results::{PointRuns, Results, jain};
use crate::stats::{self, Interval};
use serde::Serialize;

/// Up to this many threads, no thread should ever be seen to stall.
pub(crate) const CALM_THREADS: usize = 16;

/// The results of one lock at all points together.
#[derive(Debug, Serialize)]
pub(crate) struct LockSummary {
    kind: &'static str,
    pub(crate) lock: &'static str,
    /// Geometric mean over the points of throughput over that of each point's best peer.
    pub(crate) of_best_peer: Option<Interval>,
    pub(crate) worst: Option<WorstPoint>,
    pub(crate) pair_ns: Option<f64>,
    pub(crate) worst_jain: f64,
    /// As `worst_jain`, at points of up to 16 threads only.
    pub(crate) calm_jain: f64,
    /// Geometric means over the points with more than one thread.
    pub(crate) p999_of_parking_lot: Option<f64>,
    pub(crate) stall_of_parking_lot: Option<f64>,
    pub(crate) longest_stall_ns: f64,
    /// As `longest_stall_ns`, at points of up to 16 threads only.
    pub(crate) calm_stall_ns: f64,
}

/// The point at which a lock did worst.
#[derive(Debug, Serialize)]
pub(crate) struct WorstPoint {
    pub(crate) ratio: f64,
    pub(crate) point: String,
}

/// Summarises every lock that was measured at all points, the fastest first.
pub(crate) fn of(results: &Results) -> Vec<LockSummary> {
    let Some(first) = results.points.first() else { return Vec::new() };
    let names = first.locks.iter().map(|runs| runs.lock.name);
    let mut lines: Vec<LockSummary> = names
        .filter(|name| results.points.iter().all(|runs| runs.find(name).is_some()))
        .map(|name| line(name, results))
        .collect();
    let key = |line: &LockSummary| line.of_best_peer.map_or(0.0, |ratio| ratio.median);
    lines.sort_by(|a, b| key(b).total_cmp(&key(a)));
    lines
}

fn line(name: &'static str, results: &Results) -> LockSummary {
    let points = &results.points;
    let each = |figure: &dyn Fn(&PointRuns) -> Option<f64>| -> Vec<f64> {
        points.iter().filter_map(figure).collect()
    };
    let of_parking_lot = |figure: fn(&overlock_bench::RunSample) -> f64| {
        stats::geomean(&each(&|runs| {
            let (lock, other) = (runs.find(name)?, runs.find("parking-lot")?);
            let contended = runs.point.threads > 1;
            contended.then(|| stats::median(&lock.over(other, figure)))?
        }))
    };
    let stall = |runs: &PointRuns| Some(runs.find(name)?.longest_stall_ns());
    let is_calm = |runs: &PointRuns| runs.point.threads <= CALM_THREADS;
    let calm = |runs: &PointRuns| is_calm(runs).then(|| stall(runs))?;
    let fairness = |runs: &PointRuns| Some(runs.find(name)?.median(jain));
    let calm_fairness = |runs: &PointRuns| is_calm(runs).then(|| fairness(runs))?;
    let least = |values: Vec<f64>| values.into_iter().fold(1.0, f64::min);
    let rounds = geomeans(name, points);
    LockSummary {
        kind: "summary",
        lock: name,
        of_best_peer: Interval::of(&rounds),
        worst: worst(name, points),
        pair_ns: results.pair_ns(name),
        worst_jain: least(each(&fairness)),
        calm_jain: least(each(&calm_fairness)),
        p999_of_parking_lot: of_parking_lot(|sample| sample.wait_p999_ns),
        stall_of_parking_lot: of_parking_lot(|sample| sample.longest_stall_ns),
        longest_stall_ns: each(&stall).into_iter().fold(0.0, f64::max),
        calm_stall_ns: each(&calm).into_iter().fold(0.0, f64::max),
    }
}

/// Returns the geometric mean over all points for each round.
pub(crate) fn geomeans(name: &str, points: &[PointRuns]) -> Vec<f64> {
    let ratios: Vec<Vec<f64>> =
        points.iter().filter_map(|runs| runs.of_best_peer(runs.find(name)?)).collect();
    let rounds = ratios.iter().map(Vec::len).min().unwrap_or(0);
    let round = |index: usize| ratios.iter().map(|of| of[index]).collect::<Vec<_>>();
    (0..rounds).filter_map(|index| stats::geomean(&round(index))).collect()
}

fn worst(name: &str, points: &[PointRuns]) -> Option<WorstPoint> {
    let ratios = points.iter().filter_map(|runs| {
        let ratio = stats::median(&runs.of_best_peer(runs.find(name)?)?)?;
        Some(WorstPoint { ratio, point: runs.point.to_string() })
    });
    ratios.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}
