//! Xen's rule, as published: try the lock; a reader that does not get it waits until it is free,
//! and returns the time that it then finds.
//!
//! # State
//! `held` while a reader updates; `latest` is the time that the last update found.
//!
//! ```text
//!  winner:  held: false → true │ clock │ latest := max │ held := false │ return it
//!  loser:   held is true       │ relax … until held is false           │ return latest
//! ```
//!
//! # Invariants
//! - F1: only the reader that set `held` writes `latest`, and never a smaller value.
//! - F2: a loser returns the value that the update it saw wrote, or a later one.
//! - F3: so the value is no older than the start of an update that ended after the request.
//!
//! # Limits
//! If winners follow each other closely, a loser may never see the lock free. The losers of
//! `overlock::Refresh` wait for the one refresh that they found: use that rule, and compare it with
//! this one.
//!
//! # Sources
//! X. Song, "x86/hvm/pmtimer: improving scalability of virtual time update", Xen 4.1, 2010 (commit
//! 9e81df9a42).

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::rule::ReadRule;
use crate::host::Nanos;

/// Shares one reader's reading of the clock among all readers that arrive meanwhile.
#[derive(Debug)]
pub struct Published {
    held: AtomicBool,
    latest: AtomicU64,
    relax: fn(),
}

impl Published {
    /// Makes the rule. A loser calls `relax` each time it finds the lock still held. If the winner
    /// may have lost its CPU to the losers, `relax` should give up the CPU.
    pub const fn new(relax: fn()) -> Self {
        Self { held: AtomicBool::new(false), latest: AtomicU64::new(0), relax }
    }
}

impl Default for Published {
    fn default() -> Self {
        Self::new(spin_loop)
    }
}

impl ReadRule for Published {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // ORDERING: Acquire pairs with W, so that this sees the last winner's `latest`.
        if !self.held.swap(true, Acquire) {
            // Relaxed: F1, and the lock orders the winners.
            let now = clock().0.max(self.latest.load(Relaxed));
            self.latest.store(now, Relaxed);
            // ORDERING: Release (W) → both Acquires; publishes `latest`.
            self.held.store(false, Release);
            return Nanos(now);
        }
        // ORDERING: Acquire pairs with W, so that this sees what the update wrote.
        while self.held.load(Acquire) {
            (self.relax)();
        }
        Nanos(self.latest.load(Relaxed))
    }
}
