// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin locks for CPUs that get taken away.
#![no_std]

#[cfg(feature = "threads")]
extern crate std;

#[doc(hidden)]
pub mod abi;
pub mod atomic;
pub mod counters;
#[cfg(feature = "lock_api")]
pub mod lock_api;
mod mutex;
mod park;
pub mod platform;
mod raw;
mod refresh;
mod slot;
mod spin;
mod waiters;

pub use mutex::{Guard, Mutex};
pub use raw::{
    ConstLock, Hybrid, Narrow, Queued, RawLock, RawTimedLock, TestAndSet, Ticket, Wide, Width,
};
pub use refresh::{Refresh, Value};
pub use slot::{Cpu, LEVELS, Slot};
pub use waiters::Bucket;
