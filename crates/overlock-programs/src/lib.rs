#![doc = include_str!("../README.md")]

mod bundle;
mod child;
mod counts;
mod cpu_times;
mod elf;
mod finish;
mod groups;
mod input;
pub mod interrupt;
mod kinds;
mod launch;
mod library;
mod locks;
mod others;
mod starter;
mod target;
mod trial;
mod usage;
mod waits;

pub use child::{Bond, Child, Exit, GRACE, die_with};
pub use counts::{Counted, LONGEST_STALL, ProcessCounts, Shared};
pub use cpu_times::{CpuTimes, allowed_cpus, may_run_on, run_on};
pub use elf::{find, refuse};
pub use finish::{Finished, finish};
pub use groups::{end_all, kill_all};
pub use input::Input;
pub use kinds::{is_go, seen_in};
pub use launch::{Ended, Orphan, orphans, reap_orphans, start};
pub use library::{Library, Unpacked, preload_list};
pub use locks::{LIBC, LOCKS, NONE, known};
pub use others::{Process, Watch, Watching, processes};
pub use starter::{Launch, obey_as_starter};
pub use target::Target;
pub use trial::{Good, Rules, Trial};
pub use usage::{CpuUsage, thread_id};
pub use waits::Waits;
