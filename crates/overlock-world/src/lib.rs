// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod accounts;
pub mod clock;
mod document;
mod engine;
mod error;
pub mod experiment;
pub mod locks;
mod record;
mod rng;
mod run_delay;
mod sequential;
pub mod stats;
pub mod timeline;
pub mod units;
pub mod workload;
mod world;

pub use accounts::Accounts;
pub use document::Document;
pub use engine::{Config, Engine, NoYields, Outcome, PmTimerRule, VCPUS_MAX, Yields};
pub use error::Error;
pub use record::{Losses, Name, Record, WaitNs};
pub use rng::{Rng, seed_of};
pub use run_delay::RunDelay;
pub use sequential::Sequential;
pub use timeline::Timeline;
pub use world::{HINT_WAITERS, Hint, Program, Vcpu, World};
