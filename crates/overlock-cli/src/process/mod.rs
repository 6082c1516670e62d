// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unmodified programs under our locks: `overlock run` and `overlock compare`.

pub(crate) mod compare;
mod conclusion;
mod expect;
pub(crate) mod report;
pub(crate) mod run;
