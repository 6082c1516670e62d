// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releases that are not inlined ([`RawLock::unlock`] is), and what is left to do after a release.
//!
//! A platform with cheap releases has three: the cheap one, if the lock has no waiters; a
//! compare-exchange after a look, if that one refuses; and a compare-exchange from the word that a
//! held lock usually has, if this CPU has a note of the lock. The last two are repeated until the
//! word is what was expected. A waiter makes them fail only if it changes the word, which it does a
//! few times in each wait.
//!
//! [`RawLock::unlock`]: crate::RawLock::unlock

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{LockWord, Order, QueueLock, gap, kick, policy, rmw};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::{CheapRelease, Platform};
use crate::waiters::Key;

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
        // SAFETY: as here.
        unsafe { self.release_from(self.look(), fair) };
    }

    /// [`release`](Self::release) of a lock whose word is probably `seen`.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn release_from(&self, mut seen: LockWord, fair: bool) {
        let address = &raw const self.word;
        // ORDERING: Release, O2. (0,0,0,0,0,1) -> (0,0,0,0,0,0), or as in [`LockWord::released`].
        // The word is not touched again (F4).
        while let Err(now) =
            self.word.compare_exchange(seen.bits(), seen.released(fair).bits(), Release, Relaxed)
        {
            seen = LockWord::new(now);
        }
        if P::WAITS && seen.bits() & rmw::SLOW != 0 {
            Self::after_release(address, seen.released(fair));
        }
    }

    /// Releases the lock, of which this CPU has a note: without a load before, so that the word is
    /// fetched only once, and mostly in the state that is expected.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn release_noted(&self) {
        P::Release::count_noted();
        // SAFETY: as here.
        unsafe { self.release_from(LockWord::new(rmw::RELEASE), false) };
    }

    /// Releases the lock as on a platform that never waits.
    #[inline(always)]
    pub(super) fn release_natively(&self) {
        // ORDERING: Release, O2. No CPU has halted.
        self.word.fetch_sub(rmw::RELEASE, Release);
    }

    /// What is left to do after a release that found one of the bits [`rmw::SLOW`]: kicks the queue
    /// head, if necessary, or begins the gap that is being timed. `word` is the word after that
    /// release, or, where `LOCKED` is all that has changed, the one before.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_release(address: *const P::Word, word: LockWord) {
        let key = Key::new(address, 0);
        if !word.is_head_halted() {
            if word.begins_gap() {
                gap::begin::<P>(key);
            }
            return;
        }
        let left_to_newcomer = word.has_spinner()
            && word.admits_newcomers()
            && !(policy::reads_tenure(word.steals()) && kick::is_head_due::<P>(key));
        if !left_to_newcomer {
            kick::kick_head::<P, C>(key);
        }
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::RawLock;
    use crate::platform::Threads;
    use crate::raw::queue::order::Unfair;

    type Notes = <Threads as Platform>::Release;

    fn unlock(lock: &QueueLock<Threads, Unfair>) {
        // SAFETY: each caller holds the lock.
        unsafe { lock.unlock() };
    }

    #[test]
    fn a_noted_release_kicks_and_without_waiters_leaves_nothing() {
        static LOCK: QueueLock<Threads, Unfair> = QueueLock::new();
        LOCK.lock();
        let head = thread::spawn(|| {
            LOCK.lock();
            Notes::note_wait(&LOCK.word);
            unlock(&LOCK);
            LOCK.look().bits()
        });
        while !LOCK.look().is_head_halted() {
            thread::sleep(Duration::from_micros(50));
        }
        Notes::note_wait(&LOCK.word);
        unlock(&LOCK);
        assert_eq!(head.join().unwrap(), 0);
    }

    #[test]
    fn a_note_is_used_up_by_releases() {
        static LOCK: QueueLock<Threads, Unfair> = QueueLock::new();
        Notes::note_wait(&LOCK.word);
        let are_there = Threads::has_restartable_sequences() && !cfg!(overlock_no_notes);
        assert_eq!(Notes::is_noted(&LOCK.word), are_there);
        let pair = |_: &u32| {
            LOCK.lock();
            unlock(&LOCK);
            Notes::is_noted(&LOCK.word)
        };
        assert!((0..100).filter(pair).count() < 100);
    }
}
