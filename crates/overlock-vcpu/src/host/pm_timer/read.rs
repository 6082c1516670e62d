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

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use mutexed::{Lock, Mutexed};
pub use published::Published;

use crate::host::Nanos;

/// A rule by which vCPUs that read at the same time share one clock.
pub trait ReadRule {
    /// The guest's time, computed from `clock` if necessary.
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos;
}

/// Trusts the clock, and shares nothing: each reader reads the clock itself.
///
/// It is as monotone as the clock, and right where the clock is the same for all CPUs, as Linux's
/// `CLOCK_MONOTONIC` is. It is wait-free: a read takes as many steps as the clock does, whatever
/// other readers do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pure;

impl ReadRule for Pure {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        clock()
    }
}

/// Returns the clock's time, or the latest time returned if that is later: for a clock that may
/// differ between CPUs.
///
/// One word holds the latest time returned, and every read raises it. A reader whose clock is
/// behind returns the word, so time stands still for it until its clock has caught up. Raising the
/// word is one atomic maximum: some reader always makes progress, wherever any other is stopped.
#[derive(Debug, Default)]
pub struct Clamped {
    latest: AtomicU64,
}

impl ReadRule for Clamped {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        let now = clock();
        // Relaxed, since the word publishes no other data: a read that begins after another one has
        // returned sees at least the value that one left here, because all accesses to one word are
        // ordered.
        Nanos(self.latest.fetch_max(now.0, Relaxed).max(now.0))
    }
}
