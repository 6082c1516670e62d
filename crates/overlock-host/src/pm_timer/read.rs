// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the vCPUs that read the timer share it.
//!
//! The guest's time is computed from the host's clock. If that clock never runs backwards from one
//! CPU to another, nothing need be shared. If it may, somebody has to remember the latest time
//! given out, and then many vCPUs that read at once get in each other's way; how, is what the
//! rules differ in:
//!
//! | rule | monotone over all vCPUs | freshness: the time returned is | a reader that loses its CPU |
//! |---|---|---|---|
//! | [`Mutexed`] | always | no older than the request | stops all others |
//! | [`Published`] | always | no older than the start of an update that ended after the request | stops all others |
//! | [`Clamped`] | always | no older than the request | stops nobody |
//! | [`Pure`] | if the clock is | no older than the request | stops nobody |
//!
//! "No older" is by the reader's own clock. `Published` returns at most as stale a value as an
//! update takes; but that is the time of the update *on the wall*, and an updater whose thread
//! loses its CPU takes a time slice. So where the host may take a reader's CPU away, use `Pure` on
//! a clock that is good, and `Clamped` on any other.

mod clamped;
mod mutexed;
mod published;
mod pure;

pub use clamped::Clamped;
pub use mutexed::{Lock, Mutexed, SpinLock};
pub use published::Published;
pub use pure::Pure;

use crate::Nanos;

/// A rule by which vCPUs that read at the same time share one clock.
pub trait ReadRule {
    /// The guest's time, by `clock` if need be.
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos;
}
