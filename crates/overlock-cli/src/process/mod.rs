//! Unmodified programs under our locks: `overlock run` and `overlock compare`.

mod args;
pub(crate) mod compare;
mod conclusion;
mod expect;
pub(crate) mod report;
pub(crate) mod run;
mod table;
mod world;

pub(crate) use args::{CompareArgs, RunArgs};
