//! Why threads do not run: what they sleep for, who held it, and what that thread did.
//!
//! A source reports what threads did, in the order of time. [`Analysis`] keeps a timeline of each
//! thread and finds the holder of each lock: a thread that wakes a waiter had the lock last. What
//! was not observed is a share of its own and never spread over the others.
//!
//! There is no I/O, no clock, no symbol and no unsafe code here: threads, sites and reasons are
//! numbers that the source has chosen. Memory is bounded by [`Limits`], and what did not fit is
//! counted.
#![forbid(unsafe_code)]

mod chain;
mod engine;
mod event;
pub(crate) mod hash;
mod holders;
mod lock;
mod present;
mod report;
mod sleeps;
mod snapshot;
mod spin;
mod state;
mod timeline;
mod wait;

pub use chain::Link;
pub use engine::{Analysis, Limits};
pub use event::{SHARED, TraceEvent, Wakes, What};
pub use report::{Key, Report, WaitStats};
pub use snapshot::{Holder, Look, Snapshot};
pub use spin::SpinReport;
pub use state::{Reason, Site, State, Times};
