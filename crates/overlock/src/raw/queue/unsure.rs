// SPDX-License-Identifier: MIT OR Apache-2.0
//! A release for callers that may not hold the lock: a C program can unlock a mutex twice.
//!
//! An ordinary release may subtract `LOCKED`, and of a free lock that makes a word that no CPU ever
//! cleans up. This one is a compare-exchange in its place, which costs the same.

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::order::Order;
use super::{LockWord, QueueLock, rmw};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::{CheapRelease, Platform};

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Releases the lock if it is held. Returns whether it was. Of several CPUs that release one
    /// acquisition at the same time, one does, and the others find the lock free or in other hands.
    ///
    /// # Safety
    /// If a CPU holds the lock, the caller is that CPU or is entitled to release it in its place.
    #[inline]
    pub unsafe fn unlock_if_locked(&self) -> bool {
        // ORDERING: Release, O2. (0,0,0,0,0,1) -> (0,0,0,0,0,0)
        match self.word.compare_exchange(rmw::RELEASE, 0, Release, Relaxed) {
            Ok(_) => true,
            Err(word) => self.release_if_locked(LockWord::new(word)),
        }
    }

    /// [`unlock_if_locked`](Self::unlock_if_locked), for a word that shows more than a holder.
    #[cold]
    #[inline(never)]
    fn release_if_locked(&self, mut seen: LockWord) -> bool {
        let address = ptr::from_ref(&self.word);
        let released = loop {
            if !seen.is_locked() {
                return false;
            }
            let released = if P::Release::EXISTS {
                seen.released(false)
            } else {
                LockWord::new(seen.bits() - rmw::RELEASE)
            };
            // ORDERING: Release, O2. The word is not touched again (F4).
            match self.word.compare_exchange(seen.bits(), released.bits(), Release, Relaxed) {
                Ok(_) => break released,
                Err(word) => seen = LockWord::new(word),
            }
        };
        if P::WAITS && seen.bits() & rmw::SLOW != 0 {
            Self::after_release(address, released);
        }
        true
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use crate::platform::Threads;
    use crate::{Hybrid, RawLock};

    #[test]
    fn a_second_release_leaves_the_lock_free() {
        let lock = Hybrid::<Threads>::new();
        for _ in 0..3 {
            lock.lock();
            // SAFETY: held.
            assert!(unsafe { lock.unlock_if_locked() });
            // SAFETY: not held.
            assert!(!unsafe { lock.unlock_if_locked() });
            assert_eq!(lock.look().bits(), 0);
        }
    }
}
