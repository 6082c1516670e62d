// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod child;
mod cpu_times;
mod finish;
mod groups;
pub mod interrupt;
mod usage;

pub use child::{Bond, Child, Exit, GRACE, die_with};
pub use cpu_times::{CpuTimes, allowed_cpus, may_run_on, run_on};
pub use finish::{Finished, finish};
pub use groups::{end_all, kill_all};
pub use usage::{Usage, thread_id};
