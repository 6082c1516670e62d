// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod arena;
mod cell;
mod engine;
mod failure;
mod faults;
mod injections;
mod kind;
mod lock_model;
mod machine;
mod memory;
mod notes;
pub mod performance;
mod plan;
mod platform;
mod run;
mod script;
mod subject;
mod subjects;
mod trace;
mod world;

pub use failure::{Failure, Oracle};
pub use faults::{Fault, Faults};
pub use injections::injections;
pub use overlock_host::sched::yield_to::NAMES as POLICIES;
pub use overlock_results::{Rng, seed_of};
pub use plan::Plan;
pub use run::{Report, run, torture};
pub use subject::Subject;
pub use subjects::{subject, subjects};
pub use world::CPUS;
