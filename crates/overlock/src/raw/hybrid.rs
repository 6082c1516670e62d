// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Hybrid`: a line of waiters whose first may be passed for a while, but not for ever (S4).
//!
//! A lock in strict order needs a wake-up for every change of hands: several microseconds in which
//! nobody works. An unfair lock needs none, but may starve a waiter. `Hybrid` is unfair while that
//! pays and orderly before it hurts: CPUs that run take the lock past the line of those that
//! halted, and from time to time the first in line declares itself, after which nobody passes it.
//! The lock then changes hands with the wake-up already behind it.
//!
//! # State
//!
//! The word and the line are those of `queue.rs`: `(tail, SPINNER, HALTED, PENDING, LOCKED)` and a
//! count of steals.
//!
//! | mode | when | a newcomer |
//! |---|---|---|
//! | free | nobody waits | takes the lock with one CAS |
//! | unfair | somebody is in line and has not declared itself | may take the lock: a *steal*, counted in the word |
//! | queued | the first in line has declared itself (`PENDING`), or was passed [`Hybrid::MAX_BYPASS`] times | joins the line |
//!
//! # Life of an acquisition
//!
//! ```text
//!  (steals, SPINNER, HALTED, PENDING, LOCKED)
//!
//!  newcomer                         : first in line                     : release
//!                                   :                                   :
//!  (0,0,0,0,0) -> (0,0,0,0,1) free  :                                   : (n,s,h,p,1)
//!  (n,s,h,0,0) -> (n+1,s,h,0,1)     :                                   :   -> (n,s,h,p,0)
//!     | taken                 steal :                                   :      | h, and nobody
//!     v                             :                                   :      v watches
//!  (n,0,h,0,1) -> (n,1,h,0,1)       :                                   :    kick the first
//!     | budget spent        watches :                                   :
//!     v                             :                                   :
//!  (n,1,h,p,1) -> (n,0,h,p,1) ----->: looks seldom, is passed           :
//!                         joins     :    | first for 40 us, or n = bound:
//!                                   :    v                              :
//!                                   : (n,s,0,0,*) -> (n,s,0,1,*)        :
//!                                   :    |        ^         declares    :
//!                                   :    | spent  | kicked              :
//!                                   :    v        |                     :
//!                                   : (n,s,0,1,1) -> (n,s,1,p,1) halts  :
//!                                   :                                   :
//!                                   : (n,s,0,*,0) -> (0,s,0,0,1) takes, :
//!                                   :              makes the next first :
//! ```
//!
//! # The bypass bound
//!
//! From the moment a waiter is first in line until it has the lock, at most [`Hybrid::MAX_BYPASS`]
//! = 4,095 acquisitions pass it, whether it runs or not. While it is declared, none. It declares
//! itself when it has been first for 40 µs (120 µs on a lock so busy that it was passed 256 times
//! by then), or as soon after that as it has a processor. Waiters behind it are served in order, so
//! the waiter in place k is passed at most k x 4,095 times; and whoever has not reached the line
//! yet has no claim.
//!
//! One thing suspends a declaration: a waiter that has seen no change for 15 µs, because the holder
//! has lost its CPU or works for long, halts (at once, where that was so lately), and until it has
//! been first for 200 µs it lets others pass meanwhile. The count of 4,095 goes on.
//!
//! # Invariants
//!
//! * I1: a steal needs `LOCKED` and `PENDING` clear and a count below the bound, and is one CAS on
//!   all of them.
//! * I2: the count is reset only by the first in line, when it takes the lock, or when there is no
//!   line.
//! * I3: a release that sees `HALTED` kicks the first in line, unless `SPINNER` says that a
//!   newcomer watches, who may steal.
//! * I4: who set `SPINNER` clears it by taking the lock, or by a CAS while the lock is taken or the
//!   first is awake. So a free lock with a halted first in line always has a kick on its way or a
//!   newcomer that watches it.
//! * I5: a release touches the word once; afterwards only its address is used (F4).
//!
//! # Orderings
//!
//! Those of the line are in `queue.rs`. Here:
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | every CAS that takes the lock | Acquire | O2: the sections are ordered. On machines with separate acquire and release accesses nothing stronger is emitted (S3) |
//! | O2 | the release `fetch_sub` | Release | O1 |
//!
//! Setting and clearing `SPINNER` and `PENDING` is `Relaxed`: they are part of the word that the
//! CAS of I1 compares, and nothing is read through them.
//!
//! # Departures from S4 and Linux's `pv_hybrid_queued_unfair_trylock`
//!
//! * There the first in line declares itself at once and for as long as it spins, so the lock is
//!   unfair only while it halts. Here it is polite first: with short sections most of the gain is
//!   in the steals between two changes of hands.
//! * Newcomers in unfair mode spin without bound there, and so does a first in line after a steal
//!   (F18). Here both have budgets in time, and a first in line halts again however often it was
//!   passed.
//! * One newcomer at a time announces that it watches (`SPINNER`); releases then need not kick.
//!   Go's `spinbit` mutex does likewise (golang/go#68578).
//! * A newcomer that the line has just passed gives up its turn and joins it: CPUs that lose the
//!   lock make room for those that get it.
//! * A kicked waiter that is not back after 12 µs waits for a processor, not for the lock: releases
//!   then offer it theirs ([`Platform::yield_to`]), after the release.
//!
//! # Limits
//!
//! A newcomer that loses its CPU while it watches leaves `SPINNER` set, and a release relies on it.
//! Other newcomers still take the lock, and every eighth steal looks whether the first in line has
//! waited too long and kicks it; but if no newcomer comes, the lock stays free until the watching
//! one has a CPU again. The same holds for a first in line that declares itself and then loses its
//! CPU.
//!
//! # Sources
//!
//! W. Long, "locking/pvqspinlock: Hybrid PV queued/unfair locks" (S4, 2017; Linux 4.15); constants
//! measured on two CPUs, a wake-up being about 5 µs.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::queue::{self, HALTED, Joined, LOCKED, PENDING, Place, SPINNER, STEAL, STEALS, TAIL};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::Platform;
use crate::raw::{RawLock, RawTimedLock};
use crate::slot::Slot;
use crate::spin::Spin;
use crate::waiters::Key;

mod patience;

use patience::{Patience, STUCK_NS};

/// How long the first in line lets others pass before it declares itself: some wake-ups, so that a
/// change of hands costs a few percent. Longer, and the tail of the waiting time (waiters x this)
/// grows past that of locks with eventual fairness.
const POLITE_NS: u64 = 40_000;
/// The same where it was passed [`QUICK`] times by then: sections so short that a change of hands
/// costs more than they do.
const POLITE_QUICK_NS: u64 = 120_000;
/// See [`POLITE_QUICK_NS`].
const QUICK: u32 = 256 * STEAL;
/// A first in line that halts lets others pass meanwhile until it has been first for so long.
const PASSED_NS: u64 = 200_000;
/// How long a newcomer spins before it joins the line, unless it watches for a first in line that
/// sleeps.
const SPIN_NEWCOMER_NS: u64 = 2_000;
/// A release that a newcomer watches looks once in so many steals whether the first in line has
/// waited too long.
const LOOK_EVERY: u32 = 8 * STEAL;
/// A patient thief offers its processor once in so many steals: the first in line should have
/// declared itself.
const OFFER_EVERY: u32 = 128 * STEAL;

const _: () = assert!(LOOK_EVERY.is_power_of_two() && OFFER_EVERY.is_power_of_two());

/// The hybrid queued and unfair lock. See the [module documentation](self).
pub struct Hybrid<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

/// `(n,s,h,0,0) -> (n+1,s,h,0,1)`: how a newcomer takes a lock in state `word`, if it may (I1).
#[inline]
fn steal(word: u32) -> Option<u32> {
    if word & (LOCKED | PENDING) != 0 {
        None
    } else if word & (TAIL | SPINNER) == 0 {
        Some(LOCKED)
    } else if word & STEALS != STEALS {
        Some((word | LOCKED) + STEAL)
    } else if word & TAIL == 0 {
        Some((word | LOCKED) & !STEALS)
    } else {
        None
    }
}

/// Whether newcomers may pass the first in line, which sleeps.
#[inline]
fn is_unfair(word: u32) -> bool {
    word & HALTED != 0 && word & PENDING == 0 && word & STEALS != STEALS
}

/// How long the first in line is polite.
fn polite_ns(word: u32) -> u64 {
    if word & STEALS < QUICK { POLITE_NS } else { POLITE_QUICK_NS }
}

impl<P: Platform, C: Class> Hybrid<P, C> {
    /// How many acquisitions may pass a waiter while it is first in line.
    pub const MAX_BYPASS: u32 = STEALS / STEAL;

    /// An unlocked lock in a cell that holds zero, for platforms whose cells can't be constants.
    pub const fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    fn key(&self) -> Key {
        Key::new(ptr::from_ref(&self.word), 0)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        let word = self.word.load(Relaxed);
        if P::WAITS && word & HALTED == 0 && word & (OFFER_EVERY - STEAL) == OFFER_EVERY - STEAL {
            // The first in line is awake and has been passed often: it may want a processor.
            if Patience::is_patient_with::<P>(self.key()) {
                C::count(Event::PvYield);
                P::yield_to(None);
            }
        }
        if self.try_steal(word) {
            C::count(Event::PvLockStealing);
            return true;
        }
        C::count(Event::LockSlowpath);
        let mut patience = Patience::recall::<P>(self.key());
        // The line has just passed this CPU, or whoever had the lock before.
        let passed = word & TAIL != 0 && word & STEALS == 0;
        if P::waits() && !passed && !patience.is_patient() && !patience.is_hopeless() {
            let taken = self.watch(&mut patience);
            Slot::<P>::watch::<P::Word>(None);
            if taken {
                C::count(Event::PvLockStealing);
                return true;
            }
        }
        match Place::<P, C>::join(&self.word, steal) {
            Joined::Took => {
                C::count(Event::PvLockStealing);
                true
            }
            Joined::InLine(place, before) => match place.wait_turn(before, deadline_ns) {
                Some(place) => self.lock_first(place, patience, deadline_ns),
                None => false,
            },
            Joined::NoNode => queue::wait_without_node::<P, C>(|| self.try_lock(), deadline_ns),
        }
    }

    #[inline]
    fn try_steal(&self, word: u32) -> bool {
        // ORDERING: Acquire, O1.
        steal(word)
            .is_some_and(|new| self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok())
    }

    /// Spins for the lock outside the line, for a moment; in unfair mode for longer, on behalf of
    /// the first in line. Returns whether it has the lock.
    fn watch(&self, patience: &mut Patience) -> bool {
        let mut spin = Spin::new(SPIN_NEWCOMER_NS);
        let mut announced = false;
        let mut more = true;
        loop {
            let word = self.word.load(Relaxed);
            if let Some(new) = steal(word) {
                let retaken = || self.word.load(Relaxed) != word;
                if patience.probe::<P>(self.key(), retaken) {
                    more = !patience.is_patient();
                    continue;
                }
                let new = if announced { new & !SPINNER } else { new };
                // ORDERING: Acquire, O1. (n,s,h,0,0) -> (n+1,0,h,0,1)
                if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                    return true;
                }
            } else if more {
                if !announced && word & SPINNER == 0 {
                    Slot::<P>::watch(Some((&raw const self.word, queue::mend::<P>)));
                    // (n,0,h,p,1) -> (n,1,h,p,1)
                    announced = self.swap_relaxed(word, word | SPINNER);
                }
                more = spin.pause::<P>(patience.pauses(word).0)
                    || announced && is_unfair(word) && self.first_sleeps_for_ns() < POLITE_NS;
            } else if !announced || self.swap_relaxed(word, word & !SPINNER) {
                // (n,1,h,p,l) -> (n,0,h,p,l) (I4)
                return false;
            }
        }
    }

    fn swap_relaxed(&self, word: u32, new: u32) -> bool {
        self.word.compare_exchange(word, new, Relaxed, Relaxed).is_ok()
    }

    /// How long the first in line has been first, if it has halted; for ever if it has not.
    fn first_sleeps_for_ns(&self) -> u64 {
        queue::first_halted_for_ns::<P>(self.key()).unwrap_or(u64::MAX)
    }

    /// Takes the lock as the first in line.
    fn lock_first(
        &self,
        mut place: Place<'_, P, C>,
        mut patience: Patience,
        deadline_ns: Option<u64>,
    ) -> bool {
        let mut declared = false;
        let mut spin = Spin::new(STUCK_NS);
        loop {
            let word = self.word.load(Relaxed);
            if word & LOCKED == 0 {
                match place.take() {
                    Ok(()) => return true,
                    Err(same) => place = same,
                }
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                place.give_up();
                return false;
            }
            if !declared && (word & STEALS == STEALS || place.first_for_ns() >= polite_ns(word)) {
                // (n,s,0,0,l) -> (n,s,0,1,l)
                self.word.fetch_or(PENDING, Relaxed);
                declared = true;
            }
            let (pauses, changed) = patience.pauses(word);
            if changed {
                spin = Spin::new(STUCK_NS);
            }
            let pauses = if declared { 1 } else { pauses };
            let stuck = !patience.is_hopeless() && !spin.pause::<P>(pauses);
            if stuck {
                patience.despair::<P>(self.key());
            }
            if patience.is_hopeless() {
                place.halt_first(place.first_for_ns() >= PASSED_NS, deadline_ns);
                declared = false;
            }
        }
    }

    /// Releases the lock so that the first in line, if there is one, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        let address = &raw const self.word;
        let seen = queue::release_fairly::<P>(&self.word);
        if P::WAITS && seen & HALTED != 0 {
            Self::kick(address, seen);
        }
    }

    /// After the release of a lock in state `word`, with somebody halted: kicks the first in line
    /// unless a newcomer watches the lock for it (I3). Uses the address only (I5).
    #[cold]
    #[inline(never)]
    pub(crate) fn kick(address: *const P::Word, word: u32) {
        let key = Key::new(address, 0);
        let look = word & (LOOK_EVERY - STEAL) == 0;
        if word & SPINNER == 0 || !is_unfair(word) {
            queue::kick_first::<P, C>(key, 0, look);
        } else if look {
            queue::kick_first::<P, C>(key, 2 * POLITE_NS, true);
        }
    }
}

// SAFETY: `LOCKED` is set by a successful CAS from a word without it, and cleared only by `unlock`;
// O1 and O2 order the sections.
unsafe impl<P: Platform, C: Class> RawLock for Hybrid<P, C> {
    #[inline]
    fn lock(&self) {
        // ORDERING: Acquire, O1. (0,0,0,0,0) -> (0,0,0,0,1)
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_steal(self.word.load(Relaxed))
    }

    #[inline]
    unsafe fn unlock(&self) {
        let address = ptr::from_ref(&self.word);
        // ORDERING: Release, O2. (n,s,h,p,1) -> (n,s,h,p,0); the word is not touched again (I5).
        let word = self.word.fetch_sub(LOCKED, Release);
        if P::WAITS && word & HALTED != 0 {
            Self::kick(address, word);
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, C: Class> RawTimedLock for Hybrid<P, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_lock() || self.lock_slow(Some(deadline_ns))
    }
}

faces!(Hybrid<P: Platform, C: Class> where P::Word: u32; P::Word::ZERO);
