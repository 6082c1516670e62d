//! What is asked of a run.

use crate::clock::Stamps;
use crate::threads::steps::Mix;
use overlock_results::Task;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    pub lock: String,
    pub threads: usize,
    pub task: Task,
    /// The mixes of operations, one after another, each for an equal part of the window.
    pub mixes: Vec<Mix>,
    /// How many times as long the critical sections of the first thread are.
    pub uneven: u32,
    pub links_per_ns: f64,
    /// Whether to stamp every operation at the first lock, for `--explain`.
    pub logged: bool,
    pub seed: u64,
    /// Mean number of operations from one sample to the next.
    pub spacing: u32,
    pub seconds: f64,
    /// Whether to count the lock's events.
    pub counted: bool,
    /// The clock of the parent, whose rate need not be measured again.
    pub clock: Stamps,
}
