// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured, and the medians and ratios that follow from it.

use super::grid::Point;
use super::subjects::{Entry, Origin};
use super::work::{DRIFT_LIMIT, Work};
use super::worker::RunSample;
use crate::machine::{CpuTimes, Machine};
use crate::stats::{self, Interval};
use crate::warnings::Warning;
use serde::Serialize;

/// Everything a benchmark has found out so far.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) points: Vec<PointRuns>,
    pub(crate) failures: Vec<Failure>,
}

/// Nanoseconds of an uncontended lock and unlock, round by round.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) lock: &'static Entry,
    pub(crate) samples: Vec<f64>,
}

/// The record of a [`Pair`].
#[derive(Debug, Serialize)]
pub(crate) struct PairRecord<'a> {
    kind: &'static str,
    lock: &'static str,
    ns: Option<Interval>,
    samples: &'a [f64],
}

impl Pair {
    pub(crate) fn record(&self) -> PairRecord<'_> {
        let ns = Interval::of(&self.samples);
        PairRecord { kind: "pair", lock: self.lock.name, ns, samples: &self.samples }
    }
}

/// One point: the same rounds for every lock.
#[derive(Debug)]
pub(crate) struct PointRuns {
    pub(crate) point: Point,
    pub(crate) locks: Vec<LockRuns>,
}

/// One lock at one point; `samples[i]` is from round `i`.
#[derive(Debug)]
pub(crate) struct LockRuns {
    pub(crate) lock: &'static Entry,
    pub(crate) samples: Vec<RunSample>,
}

/// A lock that did something no lock may do.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    kind: &'static str,
    pub(crate) lock: &'static str,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn lost_updates(lock: &'static str, point: Point, lost: u64) -> Self {
        let times = if lost == 1 { "an update" } else { "updates" };
        let sentence = format!(
            "lock {lock} lost {times} ({lost}) at {point}: two threads were in the section at once"
        );
        Failure { kind: "failure", lock, sentence }
    }

    pub(crate) fn died(lock: &'static str, point: Point, how: &str) -> Self {
        Failure { kind: "failure", lock, sentence: format!("lock {lock} at {point}: {how}") }
    }
}

impl LockRuns {
    /// One figure of every round.
    pub(crate) fn each(&self, figure: impl Fn(&RunSample) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    pub(crate) fn median(&self, figure: impl Fn(&RunSample) -> f64) -> f64 {
        stats::median(&self.each(figure)).unwrap_or(0.0)
    }

    pub(crate) fn worst(&self, figure: impl Fn(&RunSample) -> f64) -> f64 {
        self.each(figure).into_iter().fold(0.0, f64::max)
    }

    pub(crate) fn ops_per_s(&self) -> f64 {
        self.median(|sample| sample.ops_per_s)
    }

    pub(crate) fn jain(&self) -> f64 {
        self.median(jain)
    }

    pub(crate) fn longest_stall_ns(&self) -> f64 {
        self.worst(|sample| sample.longest_stall_ns)
    }

    /// `figure` of this lock over that of `other`, round by round.
    pub(crate) fn over(&self, other: &LockRuns, figure: impl Fn(&RunSample) -> f64) -> Vec<f64> {
        let pairs = self.samples.iter().zip(&other.samples);
        pairs.map(|(ours, theirs)| figure(ours) / figure(theirs).max(f64::MIN_POSITIVE)).collect()
    }

    pub(crate) fn steal(&self) -> CpuTimes {
        let mut sum = CpuTimes::default();
        self.samples.iter().for_each(|sample| sum += sample.cpu_times);
        sum
    }
}

/// Jain's index over the threads of a run.
pub(crate) fn jain(sample: &RunSample) -> f64 {
    stats::jain(&sample.ops.iter().map(|ops| *ops as f64).collect::<Vec<_>>())
}

impl PointRuns {
    /// Keeps the rounds that every lock has finished.
    pub(crate) fn whole_rounds(point: Point, mut locks: Vec<LockRuns>) -> Self {
        let whole = locks.iter().map(|lock| lock.samples.len()).min().unwrap_or(0);
        locks.iter_mut().for_each(|lock| lock.samples.truncate(whole));
        locks.retain(|lock| !lock.samples.is_empty());
        PointRuns { point, locks }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&LockRuns> {
        self.locks.iter().find(|runs| runs.lock.name == name)
    }

    /// The peer with the highest median throughput here.
    pub(crate) fn best_peer(&self) -> Option<&LockRuns> {
        let peers = self.locks.iter().filter(|runs| runs.lock.origin == Origin::Peer);
        peers.max_by(|a, b| a.ops_per_s().total_cmp(&b.ops_per_s()))
    }

    /// Throughput over that of the best peer, round by round.
    pub(crate) fn of_best_peer(&self, runs: &LockRuns) -> Option<Vec<f64>> {
        Some(runs.over(self.best_peer()?, |sample| sample.ops_per_s))
    }

    /// Locks by median throughput, the best first.
    pub(crate) fn ranked(&self) -> Vec<&LockRuns> {
        let mut ranked: Vec<&LockRuns> = self.locks.iter().collect();
        ranked.sort_by(|a, b| b.ops_per_s().total_cmp(&a.ops_per_s()));
        ranked
    }
}

impl Results {
    pub(crate) fn new(machine: Machine) -> Self {
        Results { machine, pairs: Vec::new(), points: Vec::new(), failures: Vec::new() }
    }

    pub(crate) fn pair_ns(&self, lock: &str) -> Option<f64> {
        let pair = self.pairs.iter().find(|pair| pair.lock.name == lock)?;
        stats::median(&pair.samples)
    }

    pub(crate) fn has_failed(&self, lock: &str) -> bool {
        self.failures.iter().any(|failure| failure.lock == lock)
    }

    /// Everything that makes these results doubtful.
    pub(crate) fn warnings(&self, before: Work, after: Work) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for PointRuns { point, locks } in &self.points {
            let mut times = CpuTimes::default();
            locks.iter().for_each(|lock| times += lock.steal());
            warnings.extend(Warning::steal(times.steal_share(), point));
        }
        let drift = before.drift(after);
        if drift > DRIFT_LIMIT {
            warnings.push(Warning::Drift { percent: drift * 100.0 });
        }
        warnings.extend(self.widest());
        warnings.extend(self.undrained());
        warnings
    }

    /// The widest of all ratios that came out too wide.
    fn widest(&self) -> Option<Warning> {
        let ratios = self.points.iter().flat_map(|runs| {
            runs.locks.iter().filter_map(move |lock| {
                let interval = Interval::of(&runs.of_best_peer(lock)?)?;
                Some((interval.spread(), format!("{} at {}", lock.lock.name, runs.point)))
            })
        });
        Warning::widest(ratios)
    }

    /// The run that left the most threads in a lock.
    fn undrained(&self) -> Option<Warning> {
        let runs = self.points.iter().flat_map(|runs| {
            runs.locks.iter().map(move |lock| {
                let most = lock.samples.iter().map(|sample| sample.undrained).max().unwrap_or(0);
                (most, lock.lock.name, runs.point)
            })
        });
        let (threads, lock, point) = runs.max_by_key(|(most, ..)| *most)?;
        (threads > 0).then(|| Warning::Undrained {
            lock: lock.to_owned(),
            point: point.to_string(),
            threads,
        })
    }
}
