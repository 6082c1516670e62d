// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unmodified programs under our locks: `overlock run` and `overlock compare`.

mod bundle;
pub(crate) mod compare;
mod conclusion;
mod counts;
pub(crate) mod elf;
mod expect;
mod input;
mod kinds;
pub(crate) mod launch;
mod library;
mod others;
pub(crate) mod preload;
mod report;
pub(crate) mod run;
pub(crate) mod start;
mod startup;
/// The layout of the shared counters, which is the library's.
#[path = "../../preload/src/tally.rs"]
mod tally;
mod trial;
mod verdict;
pub(crate) mod waits;
