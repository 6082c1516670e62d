// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod advice;
mod bound;
mod check;
mod explain;
mod published;
pub mod recommend;
pub mod startup;
mod summary;
mod verdict;

pub use advice::advice;
pub use check::check;
pub use explain::explain;
pub use published::{FIGURES, beside};
pub use summary::summaries;
pub use verdict::{baseline, choose, rank};
