//! What a rule is, and the two without a lock.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
