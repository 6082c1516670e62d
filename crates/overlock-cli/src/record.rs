// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON records: the same from every world, so that tools can rely on them.
//!
//! Fields can be added, but are never renamed.

use crate::machine::Machine;
use crate::stats::Interval;
use overlock_bench::Lengths;
pub(crate) use overlock_world::WaitNs as Waits;
pub(crate) use overlock_world::stats::{Spread, merged};
use serde::Serialize;
use std::collections::BTreeMap;

/// The first record of a file: machine, commit and command.
#[derive(Debug, Serialize)]
pub(crate) struct RunRecord<'a> {
    kind: &'static str,
    version: &'static str,
    commit: &'static str,
    command: Vec<String>,
    seed: u64,
    machine: &'a Machine,
}

impl<'a> RunRecord<'a> {
    pub(crate) fn new(machine: &'a Machine, seed: u64) -> Self {
        RunRecord {
            kind: "run",
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("OVERLOCK_COMMIT"),
            command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            seed,
            machine,
        }
    }
}

/// One lock at one point.
#[derive(Debug, Serialize)]
pub(crate) struct PointRecord<'a, Sample> {
    pub(crate) kind: &'static str,
    pub(crate) world: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) lock: &'a str,
    pub(crate) policy: &'static str,
    pub(crate) cpus: usize,
    pub(crate) pcpus: usize,
    pub(crate) cs_ns: u64,
    pub(crate) ncs_ns: u64,
    pub(crate) seconds: f64,
    pub(crate) samples: &'a [Sample],
    pub(crate) ops_per_s: Interval,
    pub(crate) ops_per_cpu: Spread,
    pub(crate) jain: f64,
    pub(crate) wait_ns: Waits,
    /// Waits of all runs by length: see [`merged`].
    pub(crate) wait_counts: Vec<(u64, u64)>,
    pub(crate) longest_stall_ns: u64,
    pub(crate) cpu_s_per_s: f64,
    pub(crate) counters: BTreeMap<String, u64>,
    /// Probability that an interval of this record covers its true median.
    pub(crate) interval_coverage: f64,
    /// Throughput over that of the peer that is best in the other rounds, if there are any, by
    /// rounds; absent if there is no peer.
    pub(crate) of_best_peer: Option<Interval>,
    /// The best peer over all rounds.
    pub(crate) best_peer: Option<&'a str>,
    /// An operation of one thread without a lock, work included: the cost of the harness itself.
    pub(crate) floor_ns: Option<f64>,
    /// How lengths are spread around `cs_ns` and `ncs_ns`.
    pub(crate) lengths: Option<Lengths>,
    /// How many locks the threads chose from, by Zipf's law.
    pub(crate) locks_count: Option<u32>,
    /// `cs_ns` and `ncs_ns` of the second half of each run, if they changed.
    pub(crate) then_ns: Option<[u64; 2]>,
    /// How many times as long the first thread's sections were.
    pub(crate) uneven: Option<u32>,
    /// Stalls over 50 ms, in all runs.
    pub(crate) long_stalls: u64,
    /// Share of the machine's CPU time that the hypervisor took away.
    pub(crate) steal: f64,
}

/// One program under one lock.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessRecord<'a, Sample> {
    pub(crate) kind: &'static str,
    pub(crate) world: &'static str,
    /// The command, as a user would type it.
    pub(crate) workload: String,
    pub(crate) lock: &'a str,
    pub(crate) policy: &'static str,
    pub(crate) pcpus: usize,
    pub(crate) seconds: f64,
    pub(crate) samples: &'a [Sample],
    /// Runs of the program in a second of wall time.
    pub(crate) ops_per_s: Option<Interval>,
    pub(crate) cpu_s_per_s: f64,
    /// Events from a separate run; empty for locks that had none.
    pub(crate) counters: BTreeMap<String, u64>,
    /// How the program's own figure was read; absent if it was wall time.
    pub(crate) metric: Option<&'a str>,
    pub(crate) higher_is_better: bool,
    pub(crate) value: Option<Interval>,
    pub(crate) baseline: &'a str,
    /// The longest stall at a mutex in any round; absent if no process left its counters.
    pub(crate) longest_stall_ns: Option<u64>,
    /// How many times better than the baseline, by rounds: above 1 is better.
    pub(crate) of_baseline: Option<Interval>,
    pub(crate) interval_coverage: f64,
    pub(crate) steal: f64,
}
