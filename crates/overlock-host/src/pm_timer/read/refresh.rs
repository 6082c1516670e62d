// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whoever finds an update under way waits for it, and returns its result.
//!
//! # State
//! `epoch` is even while nobody updates, and odd while somebody does; each update adds two.
//! `latest` is the time the last update found.
//!
//! ```text
//!  winner:  epoch 2k → 2k+1 │ clock │ latest := max │ epoch → 2k+2 │ return it
//!  loser:   epoch is 2k+1   │ relax … until epoch is not 2k+1      │ return latest
//! ```
//!
//! # Invariants
//! - F1: only the one that made `epoch` odd writes `latest`, and never a smaller value.
//! - F2: a loser returns what the update it saw wrote, or a later one: it waits for that update
//!   alone, and no number of further winners can hold it up.
//! - F3: so the value is no older than the start of an update that ended after the request.
//!
//! # Departures
//! The origin tries the timer's lock, and losers wait until they see the lock free. Where winners
//! follow each other closely a loser may never see that; an epoch cannot be missed.
//!
//! # Sources
//! X. Song, "x86/hvm/pmtimer: improving scalability of virtual time update", Xen 4.1, 2010.

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::ReadRule;
use crate::Nanos;

/// Shares one reader's look at the clock among all who come while it looks.
#[derive(Debug)]
pub struct Refresh {
    epoch: AtomicU64,
    latest: AtomicU64,
    relax: fn(),
}

impl Refresh {
    /// Makes the rule; `relax` is what a loser does each time it looks in vain. Where the winner
    /// may have lost its CPU to the losers, that should give up the CPU.
    #[must_use]
    pub const fn new(relax: fn()) -> Self {
        Self { epoch: AtomicU64::new(0), latest: AtomicU64::new(0), relax }
    }
}

impl Default for Refresh {
    /// Losers spin.
    fn default() -> Self {
        Self::new(spin_loop)
    }
}

impl ReadRule for Refresh {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // Relaxed: an even value is only a guess, which the exchange confirms.
        let seen = self.epoch.load(Relaxed);
        let won = seen.is_multiple_of(2)
            // ORDERING: Acquire pairs with W, so that the last winner's `latest` is seen.
            && self.epoch.compare_exchange(seen, seen + 1, Acquire, Relaxed).is_ok();
        if won {
            // Relaxed: F1, and the epoch orders the winners.
            let now = clock().0.max(self.latest.load(Relaxed));
            self.latest.store(now, Relaxed);
            // ORDERING: Release (W) → both Acquires; publishes `latest`.
            self.epoch.store(seen + 2, Release);
            return Nanos(now);
        }
        // If the exchange failed, somebody else made the epoch odd: that update is the one to wait
        // for, or it has ended already.
        let update = seen | 1;
        // ORDERING: Acquire pairs with W, so that what this update wrote is seen.
        while self.epoch.load(Acquire) == update {
            (self.relax)();
        }
        Nanos(self.latest.load(Relaxed))
    }
}
