// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod accounts;
pub mod clock;
pub mod columns;
mod document;
mod engine;
mod error;
pub mod experiment;
mod job;
pub mod locks;
mod rng;
pub mod row;
mod run;
mod run_delay;
mod seeds;
mod sequential;
pub mod stats;
mod task;
pub mod timeline;
pub mod units;
mod verbs;
pub mod workload;
mod world;

pub use accounts::Accounts;
pub use document::Document;
pub use engine::{
    Config, Engine, HostScheduler, NoYields, Outcome, PmTimerRule, VCPUS_MAX, Yields,
};
pub use error::Error;
pub use job::{Job, Lengths, NO_POLICY, Shape};
pub use rng::{Rng, seed_of};
pub use run::{Losses, Name, Run, Sched, Spent, WaitNs};
pub use run_delay::RunDelay;
pub use sequential::Sequential;
pub use task::Task;
pub use timeline::Timeline;
pub use verbs::{HINT_WAITERS, Hint, Program, Vcpu, Verbs};
pub use world::{Failed, Tell, World};
