// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock around each read: how most virtual machine monitors do it, and what the others are
//! measured by.
//!
//! All readers queue for one lock, and each does the work anew that the one before it has just
//! done. A reader that loses its CPU while it has the lock stops all.

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::ReadRule;
use crate::Nanos;

/// A lock, as far as this rule needs one.
pub trait Lock {
    /// Runs `section` while no other thread runs one under this lock, after all that ran before.
    fn with<T>(&self, section: impl FnOnce() -> T) -> T;
}

/// The plainest spin lock: test, test-and-set, release by a store.
///
/// Unfair, and at the mercy of the host's scheduler. Here for comparison, where there is no `std`.
#[derive(Debug, Default)]
pub struct SpinLock {
    held: AtomicBool,
}

impl Lock for SpinLock {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        // ORDERING: Acquire pairs with the Release store below: the sections before this are seen.
        while self.held.swap(true, Acquire) {
            // Relaxed: this only waits for a better moment to swap.
            while self.held.load(Relaxed) {
                spin_loop();
            }
        }
        let result = section();
        // ORDERING: Release pairs with the Acquire swap above: this section is seen by the next.
        self.held.store(false, Release);
        result
    }
}

/// Locks, reads the clock, remembers, unlocks.
#[derive(Debug, Default)]
pub struct Mutexed<L> {
    lock: L,
    latest: AtomicU64,
}

impl<L: Lock> Mutexed<L> {
    /// Makes the rule on `lock`.
    #[must_use]
    pub const fn new(lock: L) -> Self {
        Self { lock, latest: AtomicU64::new(0) }
    }
}

impl<L: Lock> ReadRule for Mutexed<L> {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        self.lock.with(|| {
            // Relaxed, since the lock orders all that touches the word.
            let now = clock().0.max(self.latest.load(Relaxed));
            self.latest.store(now, Relaxed);
            Nanos(now)
        })
    }
}
