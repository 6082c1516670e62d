// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upgradable readers, and changes of what a lock is held for.
//!
//! An upgradable reader excludes its like and writers, and so is the only one that may upgrade: two
//! readers that both wait for the other to leave would wait for ever. It does not join the queue to
//! upgrade, since it holds what the queue head waits for:
//!
//! ```text
//!   upgradable                             readers
//!   RMW word: DUE, no other reader comes
//!   CAS word: U_HALTED, r > 0              RMW word: r -> 0
//!   ok: halt                               found U_HALTED: kick
//!   failed: look again                     else: the CAS fails
//!   CAS word: (0,u) -> (0,w)
//! ```
//!
//! Every change that leaves more room kicks a halted queue head (R3).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::RawRwLock;
use super::wait::{budget, is_late};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::park;
use crate::platform::{Bias, Platform};
use crate::raw::word::read_write::{RwWord, Want, rmw, update};

impl<P: Platform, C: Class, B: Bias<P>> RawRwLock<P, C, B> {
    /// Waits until no writer and no other upgradable reader holds the lock, and takes it for
    /// reading with the right to [upgrade](Self::upgrade).
    #[inline]
    pub fn lock_upgradable(&self) {
        if !self.try_take(Want::Upgradable) {
            self.lock_slow(Want::Upgradable, None);
        }
    }

    /// [`lock_upgradable`](Self::lock_upgradable), if it is possible without waiting.
    #[inline]
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_upgradable(&self) -> bool {
        self.try_take(Want::Upgradable) || self.try_take_biased(Want::Upgradable)
    }

    /// [`lock_upgradable`](Self::lock_upgradable), if it is possible before the deadline.
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_upgradable_until(&self, deadline_ns: u64) -> bool {
        self.try_take(Want::Upgradable) || self.lock_slow(Want::Upgradable, Some(deadline_ns))
    }

    /// Releases the lock, held as upgradable.
    ///
    /// # Safety
    /// The caller holds the lock as upgradable.
    pub unsafe fn unlock_upgradable(&self) {
        let address = &raw const self.word;
        // ORDERING: Release, R-O2. (r,p,h,1,0) -> (r,p,0,0,0). The word is not touched again (R5).
        let before = self.word.fetch_and(rmw::NOT_UPGRADABLE, Release);
        Self::kick_for(address, RwWord::new(before), RwWord::new(before & rmw::NOT_UPGRADABLE));
    }

    /// Waits until no other CPU reads, and then holds the lock for writing. New readers do not come
    /// meanwhile.
    ///
    /// # Safety
    /// The caller holds the lock as upgradable.
    #[inline]
    pub unsafe fn upgrade(&self) {
        if !self.try_to_upgrade() {
            self.upgrade_slow(None);
        }
    }

    /// [`upgrade`](Self::upgrade), if it is possible without waiting. Otherwise the lock stays held
    /// as upgradable.
    ///
    /// # Safety
    /// The caller holds the lock as upgradable.
    #[inline]
    #[must_use = "it says for what the lock is held"]
    pub unsafe fn try_upgrade(&self) -> bool {
        self.try_to_upgrade()
    }

    /// [`upgrade`](Self::upgrade), if it is possible before the deadline. Otherwise the lock stays
    /// held as upgradable.
    ///
    /// # Safety
    /// The caller holds the lock as upgradable.
    #[must_use = "it says for what the lock is held"]
    pub unsafe fn try_upgrade_until(&self, deadline_ns: u64) -> bool {
        self.try_to_upgrade() || self.upgrade_slow(Some(deadline_ns))
    }

    /// `(0,p,h,1,0) -> (0,p,h,0,1)`
    #[inline]
    fn try_to_upgrade(&self) -> bool {
        // ORDERING: Acquire, R-O1.
        update(&self.word, Acquire, RwWord::upgraded).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn upgrade_slow(&self, deadline_ns: Option<u64>) -> bool {
        C::count(Event::LockSlowpath);
        self.word.fetch_or(rmw::UPGRADE, Relaxed);
        let mut spin = budget::<P>();
        loop {
            if self.try_to_upgrade() {
                return true;
            }
            if is_late::<P>(deadline_ns) {
                C::count(Event::LockTimeout);
                let before = self.word.fetch_and(rmw::NO_UPGRADER, Relaxed);
                // The queue head may be a reader that `DUE` has kept out.
                let after = RwWord::new(before & rmw::NO_UPGRADER);
                Self::kick_for(&raw const self.word, RwWord::new(before), after);
                return false;
            }
            if !spin.pause::<P>() {
                self.halt_to_upgrade(deadline_ns);
                spin = budget::<P>();
            }
        }
    }

    /// Halts until the last reader leaves, or until that time.
    fn halt_to_upgrade(&self, until_ns: Option<u64>) {
        let halts = |seen: RwWord| match seen.upgraded() {
            Some(_) => None,
            None => Some(seen.upgrader_halted()),
        };
        let mark = || {
            // ORDERING: Release, R-O3.
            update(&self.word, Release, halts).ok().map(|seen| seen.upgrader_halted().bits())
        };
        if park::park::<P>(&self.word, until_ns, mark) {
            C::count(Event::PvWaitHead);
            if self.look().is_upgrader_halted() {
                self.word.fetch_and(rmw::UPGRADER_IS_BACK, Relaxed);
            }
        }
    }

    /// Goes on reading, without writing: others may read, too.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn downgrade(&self) {
        self.hold_for_less(Want::Write, Want::Read);
    }

    /// Goes on as an upgradable reader, without writing: others may read, too.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn downgrade_to_upgradable(&self) {
        self.hold_for_less(Want::Write, Want::Upgradable);
    }

    /// Goes on reading, without the right to upgrade.
    ///
    /// # Safety
    /// The caller holds the lock as upgradable.
    pub unsafe fn downgrade_upgradable(&self) {
        self.hold_for_less(Want::Upgradable, Want::Read);
    }

    fn hold_for_less(&self, from: Want, to: Want) {
        // ORDERING: Release, R-O2. (0,p,h,0,1) -> (1,p,0,0,0) or (0,p,0,1,0); (r,p,h,1,0) ->
        // (r+1,p,0,0,0)
        let before = update(&self.word, Release, |seen| Some(seen.downgraded(from, to)));
        let before = before.unwrap_or(RwWord::FREE);
        Self::kick_for(&raw const self.word, before, before.downgraded(from, to));
    }

    /// Releases the lock so that the queue head, if one waits, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock for that.
    #[cfg(feature = "lock_api")]
    pub(crate) unsafe fn unlock_fair(&self, from: Want) {
        // A biased lock has no waiters.
        if from == Want::Read && self.leaves_by_bias() {
            return;
        }
        let address = &raw const self.word;
        // ORDERING: Release, R-O2. The word is not touched again (R5).
        let before = update(&self.word, Release, |seen| Some(seen.released_fairly(from)));
        let before = before.unwrap_or(RwWord::FREE);
        if P::WAITS && before.is_upgrader_halted() {
            Self::kick(address);
        } else {
            Self::kick_for(address, before, before.released_fairly(from));
        }
    }
}
