// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod error;
mod histogram;
mod isolated;
mod run;
mod sample;
mod sched;
mod steps;
mod subject;
mod subjects;
mod timeline;
mod watch;
mod work;
mod worker;
mod world;

pub use error::Error;
pub use isolated::{CHILD, Ended, obey, pairs, run};
pub use run::{RunSample, RunSpec};
pub use sample::spacing;
pub use sched::Sched;
pub use steps::Mix;
pub use subjects::{Entry, FLOOR, Origin, find, offered};
pub use work::{DRIFT_LIMIT, Work};
pub use world::Threads;
