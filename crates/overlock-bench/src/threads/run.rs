// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of a run.

use crate::clock::Stamps;
use crate::threads::steps::Mix;
use overlock_results::Task;
use serde::{Deserialize, Serialize};

/// The task of a run, as the parent passes it to its child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    pub lock: String,
    pub threads: usize,
    /// What they use the lock for.
    pub task: Task,
    /// The mixes of operations, one after another, each for an equal part of the window.
    pub mixes: Vec<Mix>,
    /// How many times as long the critical sections of the first thread are.
    pub uneven: u32,
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
