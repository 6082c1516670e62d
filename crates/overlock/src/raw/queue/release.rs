//! Releases that are not inlined ([`RawLock::unlock`] is), and what is left to do after a release.
//!
//! A waiter makes the compare-exchange of a release fail only if it changes the word, which it does
//! a few times in each wait.
//!
//! [`RawLock::unlock`]: crate::RawLock::unlock

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{Order, QueueLock, kick};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::park;
use crate::platform::{CheapRelease, Platform};
use crate::raw::RawFairLock;
use crate::raw::word::queue::{LockWord, cas, rmw, update};

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Releases the lock if it is held, for callers that may not hold it: a C program can unlock a
    /// mutex twice, and to subtract `LOCKED` from a free lock would make a word that no CPU ever
    /// cleans up. Returns whether it was held. Of several CPUs that release one acquisition at the
    /// same time, one does, and the others find the lock free or in other hands.
    ///
    /// # Safety
    /// If a CPU holds the lock, the caller is that CPU or is entitled to release it in its place.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn unlock_if_locked(&self) -> bool {
        // ORDERING: Release, O2. (0,0,0,0,1) -> (0,0,0,0,0)
        let is_free = cas(&self.word, LockWord::HELD, LockWord::FREE, Release).is_ok();
        // SAFETY: as for this function.
        is_free || unsafe { self.release(false) }
    }

    /// Releases the lock if it is held, and counts the steal by which its holder may have taken it
    /// (I1). With `fair`, no newcomer passes the queue. Returns whether the lock was held.
    /// `(t,d,h,n,1) -> (t,d,h,n,0)`, or of an uncounted steal `(t,d,h,0,1) -> (t,d,h,1,0)`.
    ///
    /// # Safety
    /// As for [`unlock_if_locked`](Self::unlock_if_locked).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn release(&self, fair: bool) -> bool {
        let address = ptr::from_ref(&self.word);
        let releases =
            |seen: LockWord| seen.is_locked().then(|| seen.released(fair, P::Release::EXISTS));
        // ORDERING: Release, O2. The word is not touched again (F4).
        let released = update(&self.word, Release, releases);
        released.map(|(before, _)| Self::after_release(address, before)).is_ok()
    }

    /// Releases the lock as on a platform that never waits.
    #[inline(always)]
    pub(super) fn release_natively(&self) {
        // ORDERING: Release, O2. No CPU has halted.
        self.word.fetch_sub(rmw::RELEASE, Release);
    }

    /// What is left to do after a release that found this word: wakes a halted queue head, and a
    /// waiter that has halted outside the queue.
    #[inline(always)]
    pub(crate) fn after_release(address: *const P::Word, word: LockWord) {
        if P::WAITS && word.is_head_halted() {
            kick::kick_head::<P, C>(address);
        }
        if P::WAITS && word.has_parked() {
            Self::wake_parked(address);
        }
    }
}

// SAFETY: a release; after it the queue head, or one that has halted outside the queue, if there is
// one, is the next to take the lock.
unsafe impl<P: Platform, O: Order, C: Class> RawFairLock for QueueLock<P, O, C> {
    unsafe fn unlock_fair(&self) {
        // (0,0,0,0,1) -> (0,1,0,1,1). It wakes one before the release, after which the lock may be
        // gone (F4): only one that is awake takes a lock that is handed over. If it halts again
        // meanwhile, it sets `PARKED`, and the release wakes one that has.
        let hands_over = update(&self.word, Relaxed, LockWord::handed_over).is_ok();
        let is_in_vain =
            hands_over && !park::unpark_one::<P>(&raw const self.word, park::Class::ONLY);
        // SAFETY: the caller holds the lock.
        unsafe { self.release(!is_in_vain) };
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
