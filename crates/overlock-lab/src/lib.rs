// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod clock;
mod engine;
mod error;
mod gate;
mod guest;
mod host;
mod kvm;
mod maps;
mod place;
mod signal;
mod slice_timer;
mod spin_loops;
mod threads;
pub mod workload;

pub use engine::{Config, Engine, Outcome};
pub use error::{Error, Stuck};
pub use guest::platform::Guest;
pub use guest::world::{Hint, Program, Vcpu, World};
pub use host::{Accounts, PmTimerRule};
pub use kvm::{KvmEngine, Ports};
pub use overlock_host::sched::yield_to::NAMES as POLICIES;
pub use place::Place;
pub use threads::{Calls, ThreadsEngine};
