//! The hypervisor's side, pure: events in, decisions out. No clock, no I/O, no unsafe code, no std.

mod cpu;
#[doc = include_str!("../GUIDE.md")]
pub mod guide {}
pub mod pm_timer;
pub mod sched;
mod time;

pub use cpu::{Pcpu, Vcpu};
pub use time::Nanos;
