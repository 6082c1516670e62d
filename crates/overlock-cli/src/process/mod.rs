// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unmodified programs under our locks: `overlock run` and `overlock compare`.

mod bundle;
pub(crate) mod compare;
pub(crate) mod elf;
mod expect;
pub(crate) mod launch;
pub(crate) mod preload;
mod report;
pub(crate) mod run;
mod startup;
mod trial;
mod verdict;
pub(crate) mod waits;
