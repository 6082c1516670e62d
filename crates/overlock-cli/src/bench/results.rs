// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements, and the medians and ratios that follow from them.

use super::grid::Point;
use crate::machine::{CpuTimes, Machine};
use crate::stats::{self, Interval};
use crate::warnings::Warning;
use overlock_bench::RunSample;
use overlock_bench::{DRIFT_LIMIT, Work};
use overlock_bench::{Entry, Origin};
use serde::Serialize;

/// The share of CPU time that the hypervisor and other processes may take in a run; a run that
/// loses more is repeated.
pub(crate) const DISTURBED: f64 = 0.05;

/// The share of an operation above which the floor is most of it.
const FLOOR_SHARE: f64 = 0.5;

/// Everything that a benchmark has found out so far.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) points: Vec<PointRuns>,
    pub(crate) failures: Vec<Failure>,
}

/// Nanoseconds of an uncontended lock and unlock, in the same order for all locks.
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
    pub(crate) fn new(lock: &'static Entry) -> Self {
        Pair { lock, samples: Vec::new() }
    }

    pub(crate) fn record(&self) -> PairRecord<'_> {
        let ns = Interval::of(&self.samples);
        PairRecord { kind: "pair", lock: self.lock.name, ns, samples: &self.samples }
    }
}

/// One point: the same rounds for every lock.
#[derive(Debug)]
pub(crate) struct PointRuns {
    pub(crate) point: Point,
    /// Nanoseconds of an operation by one thread without a lock, work included.
    pub(crate) floor_ns: f64,
    pub(crate) locks: Vec<LockRuns>,
}

/// One lock at one point; `samples[i]` is from round `i`.
#[derive(Debug)]
pub(crate) struct LockRuns {
    pub(crate) lock: &'static Entry,
    pub(crate) samples: Vec<RunSample>,
    /// Runs whose every operation was logged; they are used for nothing else.
    pub(crate) logged: Vec<RunSample>,
}

/// A lock that did something that no lock may do.
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
            "lock {lock} lost {times} ({lost}) at {point}: two threads were in the critical section at once"
        );
        Failure { kind: "failure", lock, sentence }
    }

    pub(crate) fn died(lock: &'static str, point: Point, how: &str) -> Self {
        Failure { kind: "failure", lock, sentence: format!("lock {lock} at {point}: {how}") }
    }
}

impl LockRuns {
    pub(crate) fn new(lock: &'static Entry) -> Self {
        LockRuns { lock, samples: Vec::new(), logged: Vec::new() }
    }

    /// Returns one figure of every round.
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

    /// Returns the median throughput of all rounds except one, unless it is the only one.
    fn ops_per_s_without(&self, round: usize) -> f64 {
        let mut others = self.each(|sample| sample.ops_per_s);
        if others.len() > 1 {
            others.remove(round);
        }
        stats::median(&others).unwrap_or(0.0)
    }

    pub(crate) fn jain(&self) -> f64 {
        self.median(jain)
    }

    pub(crate) fn longest_stall_ns(&self) -> f64 {
        self.worst(|sample| sample.longest_stall_ns)
    }

    /// Returns `figure` of this lock over that of `other`, round by round.
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

/// Computes Jain's index over the threads of a run.
pub(crate) fn jain(sample: &RunSample) -> f64 {
    overlock_world::stats::jain(&sample.ops)
}

impl PointRuns {
    /// Keeps the rounds that every lock has finished.
    pub(crate) fn whole_rounds(point: Point, floors: &[f64], mut locks: Vec<LockRuns>) -> Self {
        let whole = locks.iter().map(|lock| lock.samples.len()).min().unwrap_or(0);
        locks.iter_mut().for_each(|lock| lock.samples.truncate(whole));
        locks.retain(|lock| !lock.samples.is_empty());
        PointRuns { point, floor_ns: stats::median(floors).unwrap_or(0.0), locks }
    }

    /// Returns whether a ratio of throughputs compares the locks, and not the work around them.
    ///
    /// Each operation of a lone thread consists of its floor and the uncontended pair. Where the
    /// floor is most of the fastest lock's operation, all locks look alike, whatever their pairs
    /// cost. With several threads the locks are there to arrange the work, so every point counts.
    pub(crate) fn has_ratios(&self) -> bool {
        let fastest = self.locks.iter().map(LockRuns::ops_per_s).fold(0.0, f64::max);
        self.point.threads > 1 || self.floor_ns * fastest < FLOOR_SHARE * 1e9
    }

    pub(crate) fn find(&self, name: &str) -> Option<&LockRuns> {
        self.locks.iter().find(|runs| runs.lock.name == name)
    }

    /// Returns the peer with the highest median throughput here, over all rounds.
    pub(crate) fn best_peer(&self) -> Option<&LockRuns> {
        self.best_peer_by(LockRuns::ops_per_s)
    }

    fn best_peer_by(&self, ops_per_s: impl Fn(&LockRuns) -> f64) -> Option<&LockRuns> {
        let peers = self.locks.iter().filter(|runs| runs.lock.origin == Origin::Peer);
        peers.max_by(|a, b| ops_per_s(a).total_cmp(&ops_per_s(b)))
    }

    /// Returns the throughput over that of the best peer, round by round.
    ///
    /// A round is compared with the peer that is best in the *other* rounds. The best of the same
    /// round would often be the luckiest: among equal peers, the one that the noise favoured, so
    /// that a lock as good as each of them would seem worse than all. (Sometimes the other rounds
    /// choose a peer that is a little worse; that favours the lock by less.) With a single round it
    /// must be that same round.
    pub(crate) fn of_best_peer(&self, runs: &LockRuns) -> Option<Vec<f64>> {
        if !self.has_ratios() {
            return None;
        }
        let ratio = |round: usize| {
            let peer = self.best_peer_by(|peer| peer.ops_per_s_without(round))?;
            let theirs = peer.samples[round].ops_per_s.max(f64::MIN_POSITIVE);
            Some(runs.samples[round].ops_per_s / theirs)
        };
        (0..runs.samples.len()).map(ratio).collect()
    }

    /// Returns the locks by median throughput, the best first.
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

    /// Returns everything that makes these results doubtful.
    pub(crate) fn warnings(&self, before: Work, after: Work) -> Vec<Warning> {
        let mut warnings = Vec::new();
        warnings.extend(self.most_stolen());
        warnings.extend(self.disturbed());
        let drift = before.drift(after);
        if drift > DRIFT_LIMIT {
            warnings.push(Warning::Drift { percent: drift * 100.0 });
        }
        warnings.extend(self.widest());
        warnings.extend(self.undrained());
        warnings
    }

    /// Finds the point at which the hypervisor took the most.
    fn most_stolen(&self) -> Option<Warning> {
        let shares = self.points.iter().map(|runs| {
            let mut times = CpuTimes::default();
            runs.locks.iter().for_each(|lock| times += lock.steal());
            (times.steal_share(), runs.point)
        });
        let (share, point) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Warning::steal(share, format!("at most: {point}"))
    }

    /// Counts the runs that stayed disturbed although they were repeated.
    fn disturbed(&self) -> Option<Warning> {
        let samples = || self.points.iter().flat_map(|of| &of.locks).flat_map(|of| &of.samples);
        let disturbed = samples().filter(|sample| sample.disturbance > DISTURBED).count();
        let retaken = samples().map(|sample| sample.retaken).sum();
        let worst = samples().map(|sample| sample.disturbance).fold(0.0, f64::max);
        let runs = samples().count();
        (disturbed > 0).then_some(Warning::Disturbed { disturbed, runs, retaken, worst })
    }

    /// Finds the widest of all ratios that came out too wide.
    fn widest(&self) -> Option<Warning> {
        let ratios = self.points.iter().flat_map(|runs| {
            runs.locks.iter().filter_map(move |lock| {
                let interval = Interval::of(&runs.of_best_peer(lock)?)?;
                Some((interval.spread(), format!("{} at {}", lock.lock.name, runs.point)))
            })
        });
        Warning::widest(ratios)
    }

    /// Finds the run that left the most threads in a lock.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    /// S. Vigna's SplitMix64: numbers that look random, one for each `x`.
    fn mixed(x: u64) -> u64 {
        let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Makes equal locks, of which each round favours another: `hybrid` and all peers.
    fn equals(seed: u64) -> PointRuns {
        let entries = overlock_bench::offered()
            .filter(|entry| entry.name == "hybrid" || entry.origin == Origin::Peer);
        let mut locks: Vec<LockRuns> = entries.map(LockRuns::new).collect();
        for (index, runs) in (0..).zip(&mut locks) {
            let luck = |round| mixed(seed << 16 | index << 8 | round) % 20;
            let sample =
                |round| RunSample { ops_per_s: 100.0 + luck(round) as f64, ..RunSample::default() };
            runs.samples = (0..3).map(sample).collect();
        }
        PointRuns { point: Point::plain(2, Nanos(0), Nanos(0)), floor_ns: 0.0, locks }
    }

    /// Returns the geometric mean over many points of the `ratios` of `hybrid`.
    fn mean(ratios: impl Fn(&PointRuns, &LockRuns) -> Vec<f64>) -> f64 {
        let points = (0..500).map(equals);
        let all: Vec<f64> =
            points.flat_map(|runs| ratios(&runs, runs.find("hybrid").unwrap())).collect();
        stats::geomean(&all).unwrap()
    }

    /// A lone thread's operations are its floor and its pair. A fastest lock with a million in a
    /// second takes 1,000 ns for each: its floor may be half of that.
    #[test]
    fn where_the_floor_is_most_of_it_there_is_no_ratio() {
        let at = |threads, floor_ns| {
            let entry = |name| LockRuns::new(overlock_bench::find(name).unwrap());
            let (mut fast, mut slow) = (entry("hybrid"), entry("std"));
            for (lock, ops_per_s) in [(&mut fast, 1e6), (&mut slow, 1e5)] {
                lock.samples = vec![RunSample { ops_per_s, ..RunSample::default() }];
            }
            let point = Point::plain(threads, Nanos(0), Nanos(0));
            let runs = PointRuns { point, floor_ns, locks: vec![fast, slow] };
            assert_eq!(runs.of_best_peer(&runs.locks[0]).is_some(), runs.has_ratios());
            runs.has_ratios()
        };
        assert_eq!(
            [0.0, 499.0, 500.0, 20_000.0].map(|floor| at(1, floor)),
            [true, true, false, false]
        );
        assert_eq!([0.0, 499.0, 500.0, 20_000.0].map(|floor| at(2, floor)), [true; 4]);
    }

    #[test]
    fn luck_makes_no_best_peer() {
        let fair = mean(|runs, lock| runs.of_best_peer(lock).unwrap());
        assert!((0.995..1.005).contains(&fair), "{fair}");
        // The naive way, which punishes a lock for the number of its peers.
        let naive =
            mean(|runs, lock| lock.over(runs.best_peer().unwrap(), |sample| sample.ops_per_s));
        assert!(naive < 0.98, "{naive}");
    }
}
