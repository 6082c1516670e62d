//! A lock around each read: what most virtual machine monitors do, and what the other rules are
//! measured against.
//!
//! All readers contend for one lock, and each repeats the work that the one before it has just
//! done. A reader that loses its CPU while it holds the lock stops all others.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::rule::ReadRule;
use crate::host::Nanos;

/// A lock, reduced to what this rule needs.
pub trait MutualExclusion {
    /// Runs `section` while no other thread runs one under this lock, and after all that ran
    /// earlier.
    fn with<T>(&self, section: impl FnOnce() -> T) -> T;
}

/// Locks, reads the clock, stores the time, unlocks.
#[derive(Debug, Default)]
pub struct Mutexed<L> {
    lock: L,
    latest: AtomicU64,
}

impl<L: MutualExclusion> Mutexed<L> {
    /// Makes the rule on `lock`.
    pub const fn new(lock: L) -> Self {
        Self { lock, latest: AtomicU64::new(0) }
    }
}

impl<L: MutualExclusion> ReadRule for Mutexed<L> {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        self.lock.with(|| {
            // Relaxed, since the lock orders every access to the word.
            let now = clock().0.max(self.latest.load(Relaxed));
            self.latest.store(now, Relaxed);
            Nanos(now)
        })
    }
}
