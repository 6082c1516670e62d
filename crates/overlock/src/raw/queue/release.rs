// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releases that are not inlined ([`RawLock::unlock`] is), and what is left to do after a release.
//!
//! A waiter makes the compare-exchange of a release fail only if it changes the word, which it does
//! a few times in each wait.
//!
//! [`RawLock::unlock`]: crate::RawLock::unlock

use core::sync::atomic::Ordering::Release;

use super::{Order, QueueLock, kick};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::RawFairLock;
use crate::raw::word::queue::{LockWord, rmw, update};

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Releases the lock so that the queue head, if there is one, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.release(true) };
    }

    /// Releases the lock, and counts the steal by which its holder may have taken it (I1). With
    /// `fair`, no newcomer passes the queue.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn release(&self, fair: bool) {
        let address = &raw const self.word;
        // ORDERING: Release, O2. (0,0,0,0,1) -> (0,0,0,0,0), or as in [`LockWord::released`].
        // The word is not touched again (F4).
        if let Ok((_, now)) = update(&self.word, Release, |seen| Some(seen.released(fair))) {
            Self::after_release(address, now);
        }
    }

    /// Releases the lock as on a platform that never waits.
    #[inline(always)]
    pub(super) fn release_natively(&self) {
        // ORDERING: Release, O2. No CPU has halted.
        self.word.fetch_sub(rmw::RELEASE, Release);
    }

    /// What is left to do after a release, which left this word, or found it and only cleared
    /// `LOCKED`: kicks a halted queue head.
    #[inline(always)]
    pub(crate) fn after_release(address: *const P::Word, word: LockWord) {
        if P::WAITS && word.is_head_halted() {
            kick::kick_head::<P, C>(address);
        }
    }
}

// SAFETY: a release; after it the queue head, if there is one, is the next to take the lock.
unsafe impl<P: Platform, O: Order, C: Class> RawFairLock for QueueLock<P, O, C> {
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { Self::unlock_fair(self) };
    }
}
