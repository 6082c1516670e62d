// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin locks for CPUs that get taken away.
#![no_std]

#[cfg(feature = "threads")]
extern crate std;

#[doc(hidden)]
pub mod abi;
pub mod atomic;
pub mod counters;
mod mutex;
pub mod platform;
mod raw;
mod slot;
mod spin;
mod waiters;

pub use mutex::{Guard, Mutex};
pub use raw::{
    ConstLock, Hybrid, Narrow, Queued, RawLock, RawTimedLock, TestAndSet, Ticket, Wide, Width,
};
pub use slot::{Cpu, LEVELS, Slot};
pub use waiters::Bucket;
