// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements, and the medians, sums and ratios that follow from them.

use super::plan::{Group, Point};
use crate::stats::{self, Interval};
use overlock_world::locks::{Build, HAND_OVER};
use overlock_world::workload::Profile;
use overlock_world::{Losses, PmTimerRule, Yields};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The record of one run, in any world.
pub(crate) type Record = overlock_world::Record<Codes>;

/// The reasons of a yield policy, as all worlds and files represent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Codes(BTreeMap<String, u64>);

impl Codes {
    /// Converts the reasons of an engine.
    pub(crate) fn of(yields: &impl Yields) -> Self {
        Self(yields.codes())
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) record: Record,
    /// Share of the machine's CPU time that its own hypervisor took away during the run.
    pub(super) machine_steal: f64,
}

/// All runs of one point; `samples[i]` is from round `i`.
#[derive(Debug)]
pub(super) struct PointRuns {
    pub(super) point: Point,
    pub(super) samples: Vec<Sample>,
    /// A run only for its timeline, if one was requested.
    pub(super) noted: Option<Record>,
}

/// How often the host was asked whether another vCPU should run instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) times: f64,
    /// How often another vCPU did.
    pub(super) yielded: f64,
    /// How often that is known to be the vCPU that was waited for.
    pub(super) hits: f64,
}

/// A guest that did something that no guest may do.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    pub(super) kind: &'static str,
    pub(super) point: String,
    pub(super) sentence: String,
}

/// A group that has been measured.
#[derive(Debug)]
pub(super) struct GroupRuns {
    /// The group's name, for people.
    pub(super) title: String,
    /// The requested share of the hand-over limit, if it chose the work between critical sections.
    pub(super) contention: Option<f64>,
    pub(super) profile: Profile,
    pub(super) points: Vec<PointRuns>,
}

impl PointRuns {
    /// One figure of every round.
    pub(super) fn each(&self, figure: impl Fn(&Record) -> f64) -> Vec<f64> {
        self.samples.iter().map(|sample| figure(&sample.record)).collect()
    }

    pub(super) fn median(&self, figure: impl Fn(&Record) -> f64) -> f64 {
        stats::median(&self.each(figure)).unwrap_or(0.0)
    }

    pub(super) fn worst(&self, figure: impl Fn(&Record) -> f64) -> f64 {
        self.each(figure).into_iter().fold(0.0, f64::max)
    }

    pub(super) fn interval(&self, figure: impl Fn(&Record) -> f64) -> Interval {
        let none = Interval { median: 0.0, low: 0.0, high: 0.0 };
        Interval::of(&self.each(figure)).unwrap_or(none)
    }

    /// Seconds of all rounds together.
    pub(super) fn seconds(&self) -> f64 {
        self.each(|record| record.seconds).iter().sum()
    }

    /// Returns `figure` here over that of `other`, round by round; nothing if one is 0, because
    /// that is not a measurement.
    pub(super) fn over(
        &self,
        other: &PointRuns,
        figure: impl Fn(&Record) -> f64,
    ) -> Option<Interval> {
        let pairs = self.each(&figure).into_iter().zip(other.each(&figure));
        let ratios: Vec<f64> =
            pairs.filter(|(_, base)| *base > 0.0).map(|(own, base)| own / base).collect();
        Interval::of(&ratios)
    }

    /// Counts by name, of all rounds together.
    pub(super) fn sums<K: AsRef<str>>(
        &self,
        counts: impl Fn(&Record) -> &BTreeMap<K, u64>,
    ) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.samples.iter().flat_map(|sample| counts(&sample.record)) {
            *sums.entry(name.as_ref().to_owned()).or_default() += count;
        }
        sums
    }

    /// Returns how often each reason was given, in all rounds together.
    pub(super) fn yields(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (code, count) in self.samples.iter().flat_map(|s| &s.record.yields.0) {
            *sums.entry(code.clone()).or_default() += count;
        }
        sums
    }

    /// Returns the losses by waiting for each lock, in all rounds together.
    pub(super) fn losses(&self) -> Vec<Losses> {
        let count = self.samples.iter().map(|sample| sample.record.locks.len()).max().unwrap_or(0);
        let mut sums = vec![Losses::default(); count];
        for sample in &self.samples {
            for (sum, lock) in sums.iter_mut().zip(&sample.record.locks) {
                sum.waited_ns += lock.waited_ns;
                sum.holder_off_ns += lock.holder_off_ns;
                sum.next_off_ns += lock.next_off_ns;
                sum.debtor_off_ns += lock.debtor_off_ns;
            }
        }
        sums
    }

    /// Returns what spinners and kickers asked of the host, in all rounds together.
    pub(super) fn asked(&self) -> Asked {
        let yields = self.yields();
        let sum = |kind: &str| -> f64 {
            let of = yields.iter().filter(|(code, _)| code.starts_with(kind));
            of.map(|(_, count)| *count as f64).sum()
        };
        let yielded = sum("directed:") + sum("plain:");
        let hits = self.each(|record| record.yield_hits as f64).iter().sum();
        Asked { times: yielded + sum("stayed:"), yielded, hits }
    }

    /// Returns the reasons of one kind (`directed`, `plain`, `stayed`, `skipped`), and how often
    /// each was given in all rounds together, the most frequent first.
    pub(super) fn reasons(&self, kind: &str) -> Vec<(String, u64)> {
        let yields = self.yields();
        let of_kind = yields.into_iter().filter_map(|(code, count)| {
            let (of, why) = code.split_once(':')?;
            (of == kind).then(|| (why.to_owned(), count))
        });
        let mut reasons: Vec<_> = of_kind.collect();
        reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        reasons
    }

    /// Returns the operations of the vCPU that did the least over those of the average one.
    pub(super) fn least_served(record: &Record) -> f64 {
        record.ops_per_cpu.min as f64 / record.ops_per_cpu.avg.max(1.0)
    }

    /// Returns the median share of the machine's CPU time that the hypervisor withheld.
    pub(super) fn machine_steal(&self) -> f64 {
        let shares: Vec<f64> = self.samples.iter().map(|sample| sample.machine_steal).collect();
        stats::median(&shares).unwrap_or(0.0)
    }
}

/// Returns operations per second, as every ratio needs them.
pub(super) fn ops_per_s(record: &Record) -> f64 {
    record.ops_per_s
}

/// Counts exits of all vCPUs per second, for any reason. A preemption counts as an eviction.
pub(super) fn exits_per_s(record: &Record) -> f64 {
    let exits = record.exits.iter().filter(|(kind, _)| **kind != "preemption");
    exits.map(|(_, count)| *count as f64).sum::<f64>() / record.seconds
}

/// Returns reads of the PM timer per second.
pub(super) fn reads_per_s(record: &Record) -> f64 {
    record.exits.get("pm-timer").copied().unwrap_or(0) as f64 / record.seconds
}

/// Returns the share of the used CPU time that was spent reading the PM timer; time that was taken
/// away meanwhile is not counted.
pub(super) fn timer_share(record: &Record) -> f64 {
    record.timer_cpu_s_per_s / record.cpu_s_per_s.max(f64::MIN_POSITIVE)
}

impl GroupRuns {
    /// Makes a group without runs.
    pub(super) fn new(group: &Group) -> Self {
        let runs =
            |point: &Point| PointRuns { point: point.clone(), samples: Vec::new(), noted: None };
        GroupRuns {
            title: group.to_string(),
            contention: group.contention,
            profile: group.profile.clone(),
            points: group.points.iter().map(runs).collect(),
        }
    }

    fn find(&self, like: impl Fn(&Point) -> bool) -> Option<&PointRuns> {
        self.points.iter().find(|runs| like(&runs.point))
    }

    /// Finds the same with one vCPU for each pCPU.
    pub(super) fn at_1x(&self, point: &Point) -> Option<&PointRuns> {
        self.find(|other| *other == Point { cpus: other.pcpus, ..point.clone() })
    }

    /// Finds the best that a lock in strict order could do there.
    pub(super) fn limit(&self, point: &Point) -> Option<&PointRuns> {
        self.find(|other| {
            other.lock.built == HAND_OVER && (other.cpus, other.pcpus) == (point.cpus, point.pcpus)
        })
    }

    /// Finds a lock in strict order that is unaware of virtual CPUs, at the same place.
    pub(super) fn native_ticket(&self, point: &Point) -> Option<&PointRuns> {
        self.find(|other| {
            other.lock.name == "native-ticket"
                && *other == Point { lock: other.lock.clone(), ..point.clone() }
        })
    }

    /// Finds the same under another yield policy.
    pub(super) fn under(&self, point: &Point, policy: &str) -> Option<&PointRuns> {
        self.find(|other| *other == Point { policy: policy.into(), ..point.clone() })
    }

    /// Finds another build of the same lock.
    pub(super) fn built(&self, point: &Point, build: Build) -> Option<&PointRuns> {
        self.find(|other| {
            other.lock.build() == build
                && other.lock.family() == point.lock.family()
                && *other == Point { lock: other.lock.clone(), ..point.clone() }
        })
    }

    /// Finds the same under another rule for the PM timer.
    pub(super) fn with_timer(&self, point: &Point, timer: PmTimerRule) -> Option<&PointRuns> {
        self.find(|other| *other == Point { timer, ..point.clone() })
    }

    /// Returns the share of acquisitions that overtook a queue, as a median; nothing for locks that
    /// never do.
    pub(super) fn unfair(&self, runs: &PointRuns) -> Option<f64> {
        let sections = f64::from(self.profile.sections);
        (runs.point.lock.family() == "hybrid" && sections > 0.0).then(|| {
            runs.median(|record| {
                let overtook = record.counters.get("pv_lock_stealing").copied().unwrap_or(0);
                let taken = record.ops_per_s * record.seconds * sections;
                if taken > 0.0 { overtook as f64 / taken } else { 0.0 }
            })
        })
    }
}
