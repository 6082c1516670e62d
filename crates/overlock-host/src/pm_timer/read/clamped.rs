// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock-free read for a clock that may differ between CPUs: never before what was returned.
//!
//! One word holds the latest time returned, and every read raises it. A reader whose clock is
//! behind returns the word; so time stands still for it until its clock has caught up. Raising it
//! is one atomic maximum: some reader always gets on, wherever any other is stopped.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ReadRule;
use crate::Nanos;

/// Returns the clock's time, or the latest time returned if that is later.
#[derive(Debug, Default)]
pub struct Clamped {
    latest: AtomicU64,
}

impl ReadRule for Clamped {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        let now = clock();
        // Relaxed, since nothing is read through the word: a read that comes after another one's
        // return sees at least what that one left here, as all accesses to one word are ordered.
        Nanos(self.latest.fetch_max(now.0, Relaxed).max(now.0))
    }
}
