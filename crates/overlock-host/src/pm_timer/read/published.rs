// SPDX-License-Identifier: MIT OR Apache-2.0
//! Xen's rule, as it was published: try the lock; whoever does not get it waits until it is free,
//! and returns what it then finds.
//!
//! # State
//! `held` while somebody updates; `latest` is the time the last update found.
//!
//! ```text
//!  winner:  held: false → true │ clock │ latest := max │ held := false │ return it
//!  loser:   held is true       │ relax … until held is false           │ return latest
//! ```
//!
//! # Invariants
//! - F1: only the one that set `held` writes `latest`, and never a smaller value.
//! - F2: a loser returns what the update it saw wrote, or a later one.
//! - F3: so the value is no older than the start of an update that ended after the request.
//!
//! # Limits
//! Where winners follow each other closely a loser may never see the lock free. `overlock::Refresh`
//! has its losers wait for the one refresh that they found; it is the rule to use, and this one to
//! compare it with.
//!
//! # Sources
//! X. Song, "x86/hvm/pmtimer: improving scalability of virtual time update", Xen 4.1, 2010 (commit
//! 9e81df9a42).

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::ReadRule;
use crate::Nanos;

/// Shares one reader's look at the clock among all who come while it looks.
#[derive(Debug)]
pub struct Published {
    held: AtomicBool,
    latest: AtomicU64,
    relax: fn(),
}

impl Published {
    /// Makes the rule; `relax` is what a loser does each time it looks in vain. Where the winner
    /// may have lost its CPU to the losers, that should give up the CPU.
    #[must_use]
    pub const fn new(relax: fn()) -> Self {
        Self { held: AtomicBool::new(false), latest: AtomicU64::new(0), relax }
    }
}

impl Default for Published {
    /// Losers spin.
    fn default() -> Self {
        Self::new(spin_loop)
    }
}

impl ReadRule for Published {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // ORDERING: Acquire pairs with W, so that the last winner's `latest` is seen.
        if !self.held.swap(true, Acquire) {
            // Relaxed: F1, and the lock orders the winners.
            let now = clock().0.max(self.latest.load(Relaxed));
            self.latest.store(now, Relaxed);
            // ORDERING: Release (W) → both Acquires; publishes `latest`.
            self.held.store(false, Release);
            return Nanos(now);
        }
        // ORDERING: Acquire pairs with W, so that what this update wrote is seen.
        while self.held.load(Acquire) {
            (self.relax)();
        }
        Nanos(self.latest.load(Relaxed))
    }
}
