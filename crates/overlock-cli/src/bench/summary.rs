// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line for each lock over all points, and the advice that follows.

use super::results::{PointRuns, Results, jain};
use crate::stats::{self, Interval};
use crate::units::{three, time};
use serde::Serialize;

/// Up to this many threads nobody should ever be seen to stall.
pub(crate) const CALM_THREADS: usize = 16;

/// The Jain index of a lock under which half of the threads get nothing: below, some starve.
const FAIR: f64 = 0.5;

/// What all points together say about one lock.
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
    /// The geometric mean of each round.
    rounds: Vec<f64>,
    /// As `longest_stall_ns`, at points of up to 16 threads only.
    pub(crate) calm_stall_ns: f64,
}

impl LockSummary {
    /// Says whether the difference to `other`, round by round, could be noise.
    fn ties_with(&self, other: &LockSummary) -> bool {
        let ratios: Vec<f64> =
            self.rounds.iter().zip(&other.rounds).map(|(own, other)| own / other).collect();
        Interval::of(&ratios).is_some_and(|ratio| ratio.includes(1.0))
    }
}

/// Where a lock did worst.
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
    let of_parking_lot = |figure: fn(&super::worker::RunSample) -> f64| {
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
        rounds,
        longest_stall_ns: each(&stall).into_iter().fold(0.0, f64::max),
        calm_stall_ns: each(&calm).into_iter().fold(0.0, f64::max),
    }
}

/// For each round the geometric mean over all points.
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

/// What to use on this machine, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Advice {
    kind: &'static str,
    pub(crate) lock: &'static str,
    pub(crate) sentence: String,
}

/// Recommends the fastest of the locks that keep everybody going.
pub(crate) fn advice(lines: &[LockSummary]) -> Option<Advice> {
    let calm = |line: &&LockSummary| {
        line.calm_stall_ns <= super::worker::STALL_NS && line.worst_jain >= FAIR
    };
    let fastest = lines.first().filter(|line| line.of_best_peer.is_some())?;
    let chosen = lines.iter().find(calm).unwrap_or(fastest);
    let speed = chosen.of_best_peer?;
    let mut sentence = format!(
        "Recommendation: use {} on this machine: {}x the best peer of each point on average",
        chosen.lock,
        three(speed.median)
    );
    if let Some(worst) = &chosen.worst {
        sentence += &format!(" and {}x at its worst ({})", three(worst.ratio), worst.point);
    }
    sentence += &format!(
        ", no thread stalled longer than {}, worst Jain index {:.2}.",
        time(chosen.longest_stall_ns),
        chosen.worst_jain
    );
    if chosen.lock != fastest.lock {
        sentence += &format!(
            " {} is faster on average ({}x), but let a thread stall for {} and shared the work \
             with Jain index {:.2} at worst.",
            fastest.lock,
            fastest.of_best_peer.map_or_else(String::new, |ratio| three(ratio.median)),
            time(fastest.longest_stall_ns),
            fastest.worst_jain
        );
    } else if !calm(&chosen) {
        sentence += " No lock kept every thread going; it is the fastest of them.";
    }
    if let Some(rival) = lines.iter().find(|line| line.lock != chosen.lock && calm(line))
        && chosen.ties_with(rival)
    {
        sentence += &format!(" {} is a tie with it within the noise.", rival.lock);
    }
    if chosen.rounds.len() == 1 {
        sentence += " One round is a hint and no proof: use more --runs.";
    }
    Some(Advice { kind: "advice", lock: chosen.lock, sentence })
}
