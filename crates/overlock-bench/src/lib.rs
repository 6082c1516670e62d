#![doc = include_str!("../README.md")]

pub mod clock;
mod document;
pub mod experiment;
mod job;
pub mod published;
mod rows;
mod run_delay;
pub mod threads;
pub mod vcpus;
mod world;

pub use document::Document;
pub use job::{Job, Shape};
pub use rows::{point_of, timeline_of};
pub use run_delay::RunDelay;
pub use vcpus::engine::{Engine, HostScheduler, Observed, RunConfig, VCPUS_MAX, Yields};
pub use vcpus::verbs::{HINT_WAITERS, Hint, Program, ThisVcpu, Verbs};
pub use vcpus::{timeline, workload};
pub use world::{Failed, Heard, SelfCheck, Tell, World};
