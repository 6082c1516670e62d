// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of a run, and what it finds out.

use crate::clock::Stamps;
use crate::threads::sched::Sched;
use crate::threads::steps::Mix;
use overlock_programs::CpuTimes;
use overlock_results::{Spent, Task};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The task of a run, as the parent passes it to its child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    /// The lock, by its name.
    pub lock: String,
    /// How many threads compete.
    pub threads: usize,
    /// What they use the lock for.
    pub task: Task,
    /// The mixes of operations, one after another, each for an equal part of the window.
    pub mixes: Vec<Mix>,
    /// How many times as long the critical sections of the first thread are.
    pub uneven: u32,
    /// Links of work in a nanosecond.
    pub links_per_ns: f64,
    /// Whether to stamp every operation at the first lock, for `--explain`.
    pub logged: bool,
    /// Seed of the lengths and the samples.
    pub seed: u64,
    /// Mean number of operations from one sample to the next.
    pub spacing: u32,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Whether to count the lock's events.
    pub counted: bool,
    /// The clock of the parent, whose rate need not be measured again.
    pub clock: Stamps,
}

/// The measurements of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunSample {
    /// Acquisitions in a second, all threads together.
    pub ops_per_s: f64,
    /// Acquisitions of each thread inside the window.
    pub ops: Vec<u64>,
    /// The actual length of the window, in seconds.
    pub seconds: f64,
    /// Waits that were stamped; percentiles are theirs.
    pub sampled: u64,
    /// Half of the stamped waits took at most this long.
    pub wait_p50_ns: f64,
    /// 99 of 100 did.
    pub wait_p99_ns: f64,
    /// 999 of 1,000 did.
    pub wait_p999_ns: f64,
    /// The longest of the stamped waits.
    pub wait_max_ns: f64,
    /// The stamped waits by length: upper bound in nanoseconds, and number.
    pub wait_counts: Vec<(u64, u64)>,
    /// The longest time that any thread waited for the lock, granted or not: stamped, or seen by
    /// the coordinator to within its grain.
    pub longest_stall_ns: f64,
    /// The longest time that a thread waited to write, if others could read.
    pub write_stall_ns: Option<f64>,
    /// Stalls longer than [`overlock_results::stats::STALL_NS`].
    pub long_stalls: u64,
    /// CPUs that the threads kept busy, on average.
    pub cpu_s_per_s: f64,
    /// How the kernel scheduled the threads meanwhile.
    pub sched: Sched,
    /// How the first lock spent its time, if it was logged.
    pub spent: Option<Spent>,
    /// The machine's CPU ticks during the window, and how many were stolen.
    pub cpu_times: CpuTimes,
    /// The share of the machine's CPU time that the hypervisor and other processes took.
    pub disturbance: f64,
    /// How many more disturbed runs were thrown away before this one.
    pub retaken: usize,
    /// Threads that hadn't left the lock when they were given up.
    pub undrained: usize,
    /// Updates that the protected counters lost (or gained), and those that a reader saw being
    /// made: any number but 0 proves a broken lock.
    pub lost_updates: u64,
    /// Events of the lock by Linux's names, warm-up included; empty unless they were counted.
    pub counters: BTreeMap<String, u64>,
}
