// SPDX-License-Identifier: MIT OR Apache-2.0
//! A release for callers that may not hold the lock: a C program can unlock a mutex twice.
//!
//! An ordinary release may subtract `LOCKED`, and of a free lock that makes a word that no CPU ever
//! cleans up. This one is a compare-exchange in its place, which costs the same.

use core::ptr;
use core::sync::atomic::Ordering::Release;

use super::QueueLock;
use super::order::Order;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::word::queue::{LockWord, cas, update};

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Releases the lock if it is held. Returns whether it was. Of several CPUs that release one
    /// acquisition at the same time, one does, and the others find the lock free or in other hands.
    ///
    /// # Safety
    /// If a CPU holds the lock, the caller is that CPU or is entitled to release it in its place.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn unlock_if_locked(&self) -> bool {
        // ORDERING: Release, O2. (0,0,0,0,1) -> (0,0,0,0,0)
        cas(&self.word, LockWord::HELD, LockWord::FREE, Release).is_ok() || self.release_if_locked()
    }

    /// [`unlock_if_locked`](Self::unlock_if_locked), for a word that shows more than a holder.
    #[cold]
    #[inline(never)]
    fn release_if_locked(&self) -> bool {
        let address = ptr::from_ref(&self.word);
        let releases = |seen: LockWord| seen.is_locked().then(|| seen.released(false));
        // ORDERING: Release, O2. The word is not touched again (F4).
        match update(&self.word, Release, releases) {
            Ok((_, now)) => Self::after_release(address, now),
            Err(_) => return false,
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
