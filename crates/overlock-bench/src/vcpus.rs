//! What vCPUs can do and what runs on them, written once for every world that has some.

pub(crate) mod engine;
pub(crate) mod locks;
mod outcome;
pub mod timeline;
pub(crate) mod verbs;
pub mod workload;

pub use locks::{Locks, MoreLocks, NoMore, PUBLISHED_CPUS, UseLock};
