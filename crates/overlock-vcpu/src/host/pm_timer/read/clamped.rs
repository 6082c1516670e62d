//! The lock-free read for a clock that may differ between CPUs: it never returns an earlier time
//! than before.
//!
//! One word holds the latest time returned, and every read raises it. A reader whose clock is
//! behind returns the word, so time stands still for it until its clock has caught up. Raising the
//! word is one atomic maximum: some reader always makes progress, wherever any other is stopped.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ReadRule;
use crate::host::Nanos;

/// Returns the clock's time, or the latest time returned if that is later.
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
