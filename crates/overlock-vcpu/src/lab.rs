#![doc = include_str!("../LABORATORY.md")]

mod config;
mod error;
mod guest;
mod host;
mod kvm;
mod maps;
mod place;
mod signal;
mod slice_timer;
mod spin_loops;
mod world;

pub use crate::host::sched::yield_to::NAMES as POLICIES;
pub use error::{Error, Stuck};
pub use guest::platform::GuestPlatform;
pub use guest::ports::Ports;
pub use kvm::KvmEngine;
#[doc(hidden)]
pub use kvm::SLOW_ENTRY_NS;
pub use overlock_bench::{Hint, Program, RunConfig, ThisVcpu, Verbs, workload};
pub use overlock_results::{Accounts, PmTimerRule};
pub use place::Place;
pub use world::Laboratory;
