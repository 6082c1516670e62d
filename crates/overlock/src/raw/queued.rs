// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Queued`: one line, served in order; a newcomer may try its luck once on entry (S3).
//!
//! Waiters stand in an MCS queue, each watching a word of its own; a lock is 4 bytes however many
//! wait. Where CPUs get taken away, a waiter that is not first halts at once, the first spins for a
//! moment and halts, and the release kicks the first.
//!
//! # State
//!
//! The word and the line are those of `queue.rs`: `(tail, HALTED, PENDING, LOCKED)`. There is also
//! said how a line begins where releases may be [sections](Platform::SECTIONS). `PENDING` means in
//! a line, where waiters halt, that the first in line is awake and nobody may pass it; where they
//! never halt, that one waiter waits without a node, before the line.
//!
//! # Life of an acquisition
//!
//! ```text
//!  (tail, HALTED, PENDING, LOCKED)
//!
//!  newcomer                            : first in line                   : unlock
//!                                      :                                 :
//!  (0,0,0,0) -> (0,0,0,1)  free        :                                 : (t,h,p,1)
//!  (0,0,0,1) -> (0,0,1,1)  no node,    :                                 :   -> (t,h,p,0)
//!            -> (0,0,0,1)  never halts :                                 :      | h
//!  (t,h,0,0) -> (t,h,0,1)  steal, once :                                 :      v
//!     | else                           :                                 :   kick the first
//!     v                                :                                 :
//!  (t,h,p,l) -> (me,h,p,l) wait ------>: (t,0,0,l) -> (t,0,1,l) spin     :
//!                                      :    | spent    ^                 :
//!                                      :    v          | kicked          :
//!                                      : (t,0,1,1) -> (t,1,0,1) halt     :
//!                                      :                                 :
//!                                      : (t,0,1,0) -> (t,0,0,1) or, last :
//!                                      : (me,0,1,0) -> (0,0,0,1)         :
//! ```
//!
//! # Invariants
//!
//! * I1: waiters in line are served in the order of their tail CAS.
//! * I2: a newcomer passes the line only with the one CAS on entry, and only while the first in
//!   line is asleep and has not been kicked before. So a first in line is passed during one halt at
//!   most.
//! * I3: after its store, or its RMW, a release uses the address of the word only (F4).
//!
//! # Orderings
//!
//! Those of the line are in `queue.rs`. The lock itself: every CAS that takes it is Acquire, the
//! release is Release, and nothing is stronger: S3's point that on machines with separate acquire
//! and release accesses the stealing and the pending-clearing CAS need no full barrier.
//!
//! # Departures
//!
//! * Linux's head clears `PENDING` at every halt, so that it can be passed at each of them; here
//!   only at its first one (I2).
//! * A waiter may give up (`queue.rs`), so this lock has a timed acquisition.
//!
//! # Sources
//!
//! W. Long, P. Zijlstra: Linux kernel/locking/qspinlock.c, qspinlock_paravirt.h; S3 (2017).

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::queue::{self, HALTED, Joined, LOCKED, PENDING, Place, TAIL};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::Platform;
use crate::raw::{RawLock, RawTimedLock};
use crate::spin::Spin;
use crate::waiters::Key;

/// How long the first in line spins before it halts: about half of what a halt and a wake-up cost.
fn spin_first_ns<P: Platform>() -> u64 {
    P::wake_ns() * 2 / 5
}

/// The paravirtual queued lock. See the [module documentation](self).
pub struct Queued<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

/// How a newcomer takes a lock in state `word`: it is free, and nobody has declared itself or,
/// where nobody halts, waits.
fn steal<P: Platform>(word: u32) -> Option<u32> {
    if word & LOCKED != 0 {
        None
    } else if P::WAITS && (word & TAIL == 0 || queue::is_begun::<P>(word)) {
        Some(queue::take_alone(word))
    } else {
        let claims = if P::WAITS { PENDING } else { PENDING | TAIL };
        (word & claims == 0).then_some(word | LOCKED)
    }
}

impl<P: Platform, C: Class> Queued<P, C> {
    /// An unlocked lock in a cell that holds zero, for platforms whose cells can't be constants.
    pub const fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        if P::SECTIONS && self.try_lock() {
            return true;
        }
        C::count(Event::LockSlowpath);
        if !P::WAITS && deadline_ns.is_none() && self.lock_pending() {
            return true;
        }
        let before_line = if P::WAITS { 0 } else { PENDING };
        match Place::<P, C>::join(&self.word, steal::<P>, before_line, deadline_ns) {
            Joined::Took => {
                C::count(Event::PvLockStealing);
                true
            }
            Joined::InLine(place, before) => match place.wait_turn(before, deadline_ns) {
                Some(place) => self.lock_first(place, deadline_ns),
                None => false,
            },
            Joined::Late => false,
            Joined::NoNode => queue::wait_without_node::<P, C>(|| self.try_lock(), deadline_ns),
        }
    }

    /// Takes the lock after its holder without a node, if nobody else waits.
    fn lock_pending(&self) -> bool {
        // (0,0,0,1) -> (0,0,1,1)
        if self.word.compare_exchange(LOCKED, LOCKED | PENDING, Relaxed, Relaxed).is_err() {
            return false;
        }
        C::count(Event::LockPending);
        loop {
            let seen = self.word.load(Relaxed);
            if seen & LOCKED == 0 {
                // ORDERING: Acquire: the lock is taken. (t,0,1,0) -> (t,0,0,1)
                let new = (seen & !PENDING) | LOCKED;
                if self.word.compare_exchange(seen, new, Acquire, Relaxed).is_ok() {
                    return true;
                }
            }
            P::relax();
        }
    }

    /// Takes the lock as the first in line.
    fn lock_first(&self, mut place: Place<'_, P, C>, deadline_ns: Option<u64>) -> bool {
        let mut halted = place.slept();
        loop {
            if P::WAITS {
                // (t,0,0,l) -> (t,0,1,l)
                self.word.fetch_or(PENDING, Relaxed);
            }
            let mut spin = Spin::new(spin_first_ns::<P>());
            loop {
                // Where nobody halts, the pending bit belongs to a waiter before the line.
                let busy = if P::WAITS { LOCKED } else { LOCKED | PENDING };
                if self.word.load(Relaxed) & busy == 0 {
                    match place.take() {
                        Ok(()) => return true,
                        Err(same) => place = same,
                    }
                }
                if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                    place.give_up();
                    return false;
                }
                if !spin.again::<P>() {
                    break;
                }
            }
            place.halt_first(halted, deadline_ns);
            halted = true;
        }
    }

    /// Releases the lock so that the first in line, if there is one, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        if !P::WAITS {
            // SAFETY: the caller holds the lock. Nobody passes a line whose waiters never halt.
            return unsafe { self.unlock() };
        }
        let word = &raw const self.word;
        if queue::release_fairly::<P>(&self.word) & HALTED != 0 {
            Self::kick(word);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn kick(word: *const P::Word) {
        queue::kick_first::<P, C>(Key::new(word, 0), 0, true);
    }
}

// SAFETY: `LOCKED` is set by a successful CAS from a word without it, and cleared only by `unlock`;
// the Acquire of each such CAS and the Release of `unlock` order the sections.
unsafe impl<P: Platform, C: Class> RawLock for Queued<P, C> {
    #[inline]
    fn lock(&self) {
        // ORDERING: Acquire, with the Release of `unlock`. (0,0,0,0) -> (0,0,0,1)
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & TAIL == 0
            && steal::<P>(word).is_some_and(|new| {
                // ORDERING: Acquire, with the Release of `unlock`.
                self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok()
            })
    }

    #[inline]
    unsafe fn unlock(&self) {
        if queue::release_alone::<P>(&self.word) {
            return;
        }
        let word = ptr::from_ref(&self.word);
        // ORDERING: Release, with the Acquire of every taking CAS. (t,h,p,1) -> (t,h,p,0); not
        // touched again (F4).
        if self.word.fetch_sub(LOCKED, Release) & HALTED != 0 && P::WAITS {
            Self::kick(word);
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, C: Class> RawTimedLock for Queued<P, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_lock() || self.lock_slow(Some(deadline_ns))
    }
}

faces!(Queued<P: Platform, C: Class> where P::Word: u32; P::Word::ZERO);
