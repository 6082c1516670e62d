// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON records: the same from every world, so that tools can rely on them.
//!
//! Fields can be added, but are never renamed.

use overlock_world::stats::Interval;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The file of the preload library.
    pub(crate) library: Option<String>,
    /// The longest stall at a mutex in any round; absent if it was not counted.
    pub(crate) longest_stall_ns: Option<u64>,
    /// How many times better than the baseline, by rounds: above 1 is better.
    pub(crate) of_baseline: Option<Interval>,
    pub(crate) interval_coverage: f64,
    pub(crate) steal: f64,
}
