// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unmodified programs under our locks: `overlock run` and `overlock compare`.

pub(crate) mod compare;
pub(crate) mod elf;
mod launch;
pub(crate) mod preload;
pub(crate) mod run;
mod trial;
mod verdict;
