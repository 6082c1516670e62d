//! How the vCPUs that read the timer share it.
//!
//! The guest's time is computed from the host's clock. If that clock never runs backwards from one
//! CPU to another, the readers need not share anything. If it may, something has to remember the
//! latest time given out, and many vCPUs that read at once then get in each other's way. The rules
//! differ in how they do:
//!
//! | rule | monotone over all vCPUs | freshness: the time returned is | a reader that loses its CPU |
//! |---|---|---|---|
//! | [`Mutexed`] | always | no older than the request | stops all others |
//! | [`Published`] | always | no older than the start of an update that ended after the request | stops all others |
//! | [`Clamped`] | always | no older than the request | stops no reader |
//! | [`Pure`] | if the clock is | no older than the request | stops no reader |
//!
//! "No older" is by the reader's own clock. The value that `Published` returns is stale by at most
//! the duration of an update; but that is *wall-clock* time, and an updater whose thread loses its
//! CPU takes a time slice. So where the host may take a reader's CPU away, use `Pure` on a good
//! clock, and `Clamped` on any other.

mod mutexed;
mod published;
mod rule;

pub use mutexed::{Mutexed, MutualExclusion};
pub use published::Published;
pub use rule::{Clamped, Pure, ReadRule};
