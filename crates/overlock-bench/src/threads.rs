//! The threads of this machine as a world: one lock at one point, measured in a process of its
//! own.
//!
//! A peer is added in `subjects.rs`: an implementation of `Subject` (two functions), and a line of
//! the table. What a run is worth is the caller's business: nothing here repeats a disturbed run or
//! compares locks.

mod error;
mod isolated;
mod neighbours;
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

pub use error::RunError;
pub use isolated::{CHILD, RunEnd, obey, pairs, run};
pub use neighbours::{NEIGHBOUR, compute};
pub use run::RunSpec;
pub use sample::spacing;
pub use steps::Mix;
pub use subjects::{Entry, FLOOR, find, offered};
pub use work::{DRIFT_LIMIT, Work};
pub use world::Threads;
