// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records as a reader sees them: the fields that a chart needs are typed, and can be absent.

use crate::record::{Spread, Waits};
use crate::stats::Interval;
use serde::Deserialize;
use serde_json::Value;

/// The first record of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub(super) version: Option<String>,
    pub(super) commit: Option<String>,
    pub(super) command: Vec<String>,
    pub(super) seed: Option<u64>,
    pub(super) machine: Machine,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    pub(super) cpus: Option<u64>,
    pub(super) cpu_model: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) hypervisor: Option<String>,
    pub(super) load_average: Option<f64>,
}

/// One lock at one point, from any world.
#[derive(Debug, Deserialize)]
pub(super) struct Point {
    pub(super) world: String,
    pub(super) workload: String,
    pub(super) lock: String,
    #[serde(default)]
    pub(super) policy: Option<String>,
    pub(super) timer: Option<String>,
    pub(super) cpus: Option<u32>,
    pub(super) pcpus: Option<u32>,
    pub(super) cs_ns: Option<u64>,
    pub(super) ncs_ns: Option<u64>,
    pub(super) contention: Option<f64>,
    pub(super) lengths: Option<String>,
    pub(super) locks_count: Option<u32>,
    pub(super) then_ns: Option<[u64; 2]>,
    pub(super) uneven: Option<u32>,
    pub(super) seconds: Option<f64>,
    #[serde(default)]
    pub(super) samples: Vec<serde::de::IgnoredAny>,
    pub(super) ops_per_s: Option<Interval>,
    pub(super) ops_per_cpu: Option<Spread>,
    pub(super) jain: Option<f64>,
    pub(super) wait_ns: Option<Waits>,
    #[serde(default)]
    pub(super) wait_counts: Vec<(u64, u64)>,
    pub(super) longest_stall_ns: Option<u64>,
    pub(super) cpu_s_per_s: Option<f64>,
    pub(super) steal: Option<f64>,
    pub(super) interval_coverage: Option<f64>,
    pub(super) of_1x: Option<Interval>,
    pub(super) of_best_peer: Option<Interval>,
    pub(super) of_report: Option<Interval>,
    pub(super) timer_read_ns: Option<Interval>,
    pub(super) metric: Option<String>,
    pub(super) value: Option<Interval>,
    pub(super) baseline: Option<String>,
    pub(super) of_baseline: Option<Interval>,
}

/// One lock over all points of a benchmark.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) lock: String,
    pub(super) of_best_peer: Option<Interval>,
}

/// vCPU, state (`running`, `ready`, `halted`), pCPU, from, to.
pub(super) type Stint = (u32, String, Option<u32>, u64, u64);

/// vCPU, lock, asked, taken, released; the last two are absent if they came after the end.
pub(super) type Hold = (u32, u32, u64, Option<u64>, Option<u64>);

/// Which vCPU ran where, waited for which lock and held which, for a part of a run.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Timeline {
    pub(super) world: String,
    pub(super) workload: String,
    pub(super) lock: String,
    pub(super) policy: String,
    pub(super) cpus: u32,
    pub(super) pcpus: u32,
    pub(super) cs_ns: u64,
    pub(super) ncs_ns: u64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Throughput of the recorded run over the median of the others.
    pub(super) speed: Option<f64>,
    pub(super) stints: Vec<Stint>,
    pub(super) holds: Vec<Hold>,
    /// Its length before it was cut for drawing.
    #[serde(skip)]
    pub(super) cut: Option<u64>,
}

/// A sentence in which a command ended, and other records that are shown unchanged.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) kind: String,
    pub(super) value: Value,
}

impl Machine {
    /// Returns whether it is the same machine, whatever its load.
    pub(super) fn is(&self, other: &Self) -> bool {
        let load_average = other.load_average;
        Machine { load_average, ..self.clone() } == *other
    }
}

impl Point {
    /// Returns the lock; its yield policy if it has one; the rule of the timer if it was read.
    pub(super) fn series(&self) -> String {
        let policy = self.policy.as_deref().filter(|policy| *policy != "none");
        let lock = Some(self.lock.as_str()).filter(|lock| *lock != "none" || self.timer.is_none());
        let parts = [lock, policy, self.timer.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns whether threads or programs ran on the machine itself, as in `bench` and `compare`;
    /// the spread of its lengths distinguishes a point of `bench` from one of the laboratory's
    /// threads.
    pub(super) fn is_real(&self) -> bool {
        self.world == "process" || self.lengths.is_some()
    }

    /// Returns the name of what shares the processors.
    pub(super) fn sharer(&self) -> &'static str {
        if self.is_real() { "thread" } else { "vCPU" }
    }

    /// Returns the name of what they share.
    pub(super) fn shared(&self) -> &'static str {
        if self.is_real() { "CPU" } else { "pCPU" }
    }

    /// Returns the vCPUs for each pCPU, or threads for each CPU.
    pub(super) fn over(&self) -> Option<f64> {
        let (cpus, pcpus) = (self.cpus?, self.pcpus.filter(|pcpus| *pcpus > 0)?);
        Some(f64::from(cpus) / f64::from(pcpus))
    }
}
