//! Rows of unmodified programs under a lock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Point;
use crate::NO_POLICY;
use crate::run::Run;
use crate::stats::{Interval, coverage};

/// The program's own locks: nothing is preloaded.
pub const LIBC: &str = "libc";

/// libc's locks again, under the preload library, which replaces nothing: to measure the cost of
/// that.
pub const NONE: &str = "none";

pub const PROCESS: &str = "process";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    pub world: String,
    pub lock: String,
    /// From 1.
    pub round: usize,
    #[serde(flatten)]
    pub run: Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartUp {
    /// Seconds of each run, the difference taken inside a round.
    pub seconds: Interval,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The lock to use; nothing if that would be a guess.
    pub lock: Option<String>,
    pub sentence: String,
    /// How often a thread waited for a lock that can be replaced, from a separate run; absent if
    /// the program left no counters.
    pub waits: Option<u64>,
    /// The cost of preloading itself; absent if it was not measured.
    pub startup: Option<StartUp>,
}

/// All that was asked of a program, whatever the lock.
#[derive(Clone, Debug)]
pub struct Programs {
    pub workload: String,
    pub pcpus: Option<u32>,
    /// How the program's own figure is read; without it the figure is wall time.
    pub metric: Option<String>,
    pub higher_is_better: bool,
    pub library: Option<String>,
}

impl Programs {
    /// Merges the runs under one lock, with the events of a separate run.
    pub fn point(&self, lock: &str, samples: Vec<Run>, counters: BTreeMap<String, u64>) -> Point {
        let mut point = Point {
            world: PROCESS.to_owned(),
            workload: self.workload.clone(),
            lock: lock.to_owned(),
            policy: NO_POLICY.to_owned(),
            pcpus: self.pcpus,
            metric: self.metric.clone(),
            higher_is_better: Some(self.higher_is_better),
            library: self.library.clone(),
            counters: counters.into_iter().map(|(name, count)| (name.into(), count)).collect(),
            samples,
            ..Point::default()
        };
        point.seconds = point.median(|run| run.seconds).unwrap_or_default();
        point.ops_per_s = Interval::of(&point.each(|run| run.ops_per_s));
        point.cpu_s_per_s = point.median(|run| run.cpu_s_per_s).unwrap_or_default();
        point.value = Interval::of(&point.each(Run::figure));
        point.longest_stall_ns = point.samples.iter().filter_map(|run| run.longest_stall_ns).max();
        point.interval_coverage = coverage(point.samples.len());
        point.steal = point.median(|run| run.steal).unwrap_or_default();
        point
    }
}

impl Point {
    /// How many times better than `other` the program's figure is, round by round: above 1 is
    /// better.
    pub fn better_than(&self, other: &Self) -> Vec<f64> {
        let rounds = self.each(Run::figure).into_iter().zip(other.each(Run::figure));
        let higher = self.higher_is_better == Some(true);
        rounds.map(|(own, other)| if higher { own / other } else { other / own }).collect()
    }
}
