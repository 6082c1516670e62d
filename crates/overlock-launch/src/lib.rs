// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod bundle;
mod counts;
mod elf;
mod input;
mod kinds;
mod launch;
mod library;
mod locks;
mod others;
mod starter;
mod target;
mod trial;
mod waits;

pub use counts::{Counted, Counts, LONGEST_STALL, Shared};
pub use elf::{find, refuse};
pub use input::Input;
pub use kinds::seen_in;
pub use launch::{Ended, Orphan, orphans, reap_orphans, start};
pub use library::{Library, Unpacked, preload_list};
pub use locks::{LIBC, LOCKS, NONE, known};
pub use others::{Background, Watch};
pub use starter::{Plan, obey_as_starter};
pub use target::Target;
pub use trial::{Good, Rules, Trial};
pub use waits::Waits;
