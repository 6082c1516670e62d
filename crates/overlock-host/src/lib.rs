// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate self as overlock_host;
#[cfg(test)]
#[macro_use]
extern crate std;

mod cpu;
#[doc = include_str!("../GUIDE.md")]
pub mod guide {}
pub mod pm_timer;
pub mod sched;
mod time;

pub use cpu::{Pcpu, Vcpu};
pub use time::Nanos;
