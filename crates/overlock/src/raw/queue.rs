// SPDX-License-Identifier: MIT OR Apache-2.0
//! PLACEHOLDER
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::{LockWord, rmw};
use crate::raw::{RawLock, RawTimedLock};
use crate::waiters::Key;

mod enqueue;
mod hand_off;
mod head;
mod kick;
mod newcomer;
pub(crate) mod order;
mod policy;
mod wait;

use enqueue::{Enqueued, Place};

/// How long a CPU naps that can not be kicked, because it has no node or the table is full.
const NAP_NS: u64 = 50_000;
pub use order::Order;

/// A lock with a queue of waiters. See the [module documentation](self).
pub struct QueueLock<P: Platform, O: Order, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<(O, C)>,
}

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// How many acquisitions may pass a waiter while it is the queue head.
    pub const MAX_BYPASS: u32 = LockWord::STEALS_MAX;

    /// An unlocked lock in a cell that holds zero, for platforms whose cells can't be constants.
    pub const fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[inline(always)]
    fn look(&self) -> LockWord {
        LockWord::new(self.word.load(Relaxed))
    }

    fn key(&self) -> Key {
        Key::new(ptr::from_ref(&self.word), 0)
    }

    /// Takes a lock that is free at this look, if a newcomer may.
    #[inline(always)]
    fn try_take(&self, seen: LockWord) -> bool {
        seen.taken_by_newcomer().is_some_and(|new| {
            // ORDERING: Acquire, O1.
            self.word.compare_exchange(seen.bits(), new.bits(), Acquire, Relaxed).is_ok()
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        let seen = self.look();
        if !seen.is_head_halted() {
            if self.try_take(seen) {
                return true;
            }
        } else if self.take_past_halted(seen) {
            C::count(Event::PvLockStealing);
            return true;
        }
        C::count(Event::LockSlowpath);
        if O::UNFAIR && P::WAITS && P::waits() && self.spin_as_newcomer(deadline_ns) {
            C::count(Event::PvLockStealing);
            return true;
        }
        match Place::<P, O, C>::enqueue(&self.word) {
            Enqueued::Took => {
                C::count(Event::PvLockStealing);
                true
            }
            Enqueued::Behind(place, before) => match place.wait_to_be_head(before, deadline_ns) {
                Some(place) => place.lock_as_head(deadline_ns),
                None => false,
            },
            Enqueued::NoNode => self.wait_without_node(deadline_ns),
        }
    }

    /// Releases the lock so that the queue head, if there is one, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        let address = &raw const self.word;
        let mut seen = self.look();
        // ORDERING: Release, O2.
        while let Err(now) =
            self.word.compare_exchange(seen.bits(), seen.released(true).bits(), Release, Relaxed)
        {
            seen = LockWord::new(now);
        }
        if P::WAITS && seen.is_head_halted() {
            Self::kick(address, seen.released(true));
        }
    }

    /// After a release of a lock whose queue head has halted.
    #[cold]
    #[inline(never)]
    pub(crate) fn kick(address: *const P::Word, before: LockWord) {
        if !before.has_spinner() || !before.admits_newcomers() {
            kick::kick_head::<P, C>(Key::new(address, 0));
        }
    }
}

// SAFETY: `LOCKED` is set by a successful CAS from a word without it, and cleared only by the
// holder's release; O1 and O2 order the critical sections.
unsafe impl<P: Platform, O: Order, C: Class> RawLock for QueueLock<P, O, C> {
    #[inline]
    fn lock(&self) {
        // ORDERING: Acquire, O1.
        let (free, held) = (LockWord::FREE.bits(), LockWord::HELD.bits());
        if self.word.compare_exchange(free, held, Acquire, Relaxed).is_err() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_take(self.look())
    }

    #[inline]
    unsafe fn unlock(&self) {
        if P::Release::EXISTS && P::Release::clear_low_byte(&self.word, LockWord::HELD.bits()) {
            return;
        }
        let address = ptr::from_ref(&self.word);
        // ORDERING: Release, O2. The word is not touched again (F4).
        let before = self.word.fetch_sub(rmw::RELEASE, Release);
        if P::WAITS && before & rmw::SLOW != 0 {
            Self::kick(address, LockWord::new(before));
        }
    }

    fn is_locked(&self) -> bool {
        self.look().is_locked()
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, O: Order, C: Class> RawTimedLock for QueueLock<P, O, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_lock() || self.lock_slow(Some(deadline_ns))
    }
}

/// Removes all waiters from a lock word: only whether it is locked stays.
///
/// # Safety
/// `word` is the word of a live lock of this platform, and nobody else uses it at the same time.
unsafe fn mend<P: Platform>(word: *const ()) {
    // SAFETY: the caller's word.
    let word = unsafe { &*word.cast::<P::Word>() };
    word.fetch_and(rmw::NO_WAITERS, Relaxed);
}

faces!(QueueLock<P: Platform, O: Order, C: Class> where P::Word: u32; P::Word::ZERO);
