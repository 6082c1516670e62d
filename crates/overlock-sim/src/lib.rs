// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod arena;
mod cell;
mod engine;
mod failure;
mod faults;
mod lock_model;
mod machine;
pub mod performance;
mod plan;
mod platform;
mod run;
mod script;
mod subject;
mod trace;
mod world;

pub use failure::{Failure, Oracle};
pub use faults::{Fault, Faults};
pub use overlock_host::sched::yield_to::NAMES as POLICIES;
pub use overlock_world::{Rng, seed_of};
pub use plan::Plan;
pub use run::{Report, run, torture};
pub use script::injections;
pub use subject::{Subject, subject, subjects};
pub use world::CPUS;
