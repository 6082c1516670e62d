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
//! count of steals. There is also said how a line begins, and what `PENDING` and the count mean
//! while there is none, on platforms whose releases may be [sections](Platform::SECTIONS).
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
//!                         joins     :    | first for long, or n = bound:
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
//! = 4,094 acquisitions pass it, whether it runs or not. While it is declared, none. It declares
//! itself when it has been first for 8 wake-ups ([`Platform::wake_ns`]: on threads they are
//! measured, and taken for 5 to 16 µs each), or as soon after that as it has a processor. (24
//! wake-ups on a lock so busy that it was passed 256 times by then; on threads 4 where others stand
//! behind it and it was passed 64 times by then, [`Platform::CROWD_WAKES`].)
//! Until then it leaves the lock to whoever comes straight back to it, and takes it when nobody
//! does. Waiters behind it are served in order, so the waiter in place k is passed at most k x
//! 4,094 times; and whoever has not reached the line yet has no claim.
//!
//! One thing suspends a declaration: a waiter that has seen no change for 3 wake-ups, because the
//! holder has lost its CPU or works for long, halts (at once, where that was so lately), and until
//! it has been first for 40 wake-ups it lets others pass meanwhile. The count of 4,094 goes on.
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
//! * I5: after its store, or its RMW, a release uses the address of the word only (F4).
//! * I6: `HALTED` makes every release look for the first in line. One that was kicked and does not
//!   get a processor would cost each section of others more than the section itself, so where
//!   nobody can offer it one ([`Platform::YIELDS`]) a steal takes the bit away. It holds the lock
//!   then, and looks once more: a first in line that has halted again meanwhile is kicked.
//!
//! ```text
//!   steal                                    first in line
//!   look: kicked, not back
//!                                            FIRST
//!                                            FIRST_HALTED
//!   (n,s,1,0,0) -> (n+1,s,0,0,1) A           CAS (.,.,0,.,1) -> (.,.,1,.,1)     B
//!   look: FIRST_HALTED? kick
//! ```
//!
//! A and B change one word. If B is first, A acquires it and the look sees `FIRST_HALTED`. If A is
//! first, the bit stays and the next release kicks.
//!
//! # Orderings
//!
//! Those of the line are in `queue.rs`. Here:
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | every CAS that takes the lock | Acquire | O2: the sections are ordered. On machines with separate acquire and release accesses nothing stronger is emitted (S3) |
//! | O2 | the release `fetch_sub`, or section | Release | O1 |
//! | O3 | the steal that clears `HALTED` | Acquire (it is an O1) | Q-O3: the look after it sees who set the bit |
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
//! * A kicked waiter that is not back after 2.4 wake-ups waits for a processor, not for the lock:
//!   releases then offer it theirs ([`Platform::yield_to`]), after the release.
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
//! measured on two CPUs with a futex, in wake-ups ([`Platform::wake_ns`]).

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::queue::{
    self, HALTED, Joined, LOCKED, PENDING, Place, SPINNER, STEAL, STEALS, STEALS_MAX, TAIL,
};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::Platform;
use crate::raw::{RawLock, RawTimedLock};
use crate::slot::Slot;
use crate::spin::Spin;
use crate::waiters::Key;

mod patience;

use patience::{Patience, stuck_ns};

/// How many wake-ups long the first in line lets others pass before it declares itself, so that a
/// change of hands costs a few percent. Longer, and the tail of the waiting time (waiters x this)
/// grows past that of locks with eventual fairness.
const POLITE: u64 = 8;
/// The same where it was passed [`QUICK`] times by then: sections so short that a change of hands
/// costs more than they do.
const POLITE_QUICK: u64 = 24;
/// See [`POLITE_QUICK`].
const QUICK: u32 = 256 * STEAL;
/// Where others stand behind it, the first in line declares itself sooner
/// ([`Platform::CROWD_WAKES`]), unless it was passed fewer times than this by then: a change of
/// hands that so few sections share would cost too much of each.
const FEW: u32 = 64 * STEAL;
/// A first in line that halts lets others pass meanwhile until it has been first for so many
/// wake-ups.
const PASSED: u64 = 40;
/// A release that a newcomer watches looks once in so many steals whether the first in line has
/// waited too long.
const LOOK_EVERY: u32 = 8 * STEAL;
/// Whoever comes when the count of steals is one less than a multiple of this offers its processor:
/// the first in line should have declared itself.
const OFFER_EVERY: u32 = 1024 * STEAL;

const _: () = assert!(LOOK_EVERY.is_power_of_two() && OFFER_EVERY.is_power_of_two());

/// The hybrid queued and unfair lock. See the [module documentation](self).
pub struct Hybrid<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

/// `(n,s,h,0,0) -> (n+1,s,h,0,1)`: how a newcomer takes a lock in state `word`, if it may (I1).
#[inline]
fn steal<P: Platform>(word: u32) -> Option<u32> {
    if word & LOCKED != 0 {
        None
    } else if word & TAIL == 0 || queue::is_begun::<P>(word) {
        Some(queue::take_alone(word))
    } else if word & PENDING == 0 && word & STEALS != STEALS_MAX {
        Some((word | LOCKED) + STEAL)
    } else {
        None
    }
}

/// Whether newcomers may pass the first in line, which sleeps.
#[inline]
fn is_unfair(word: u32) -> bool {
    word & HALTED != 0 && word & PENDING == 0 && word & STEALS != STEALS_MAX
}

/// Whether the first in line lets others pass, on a lock in state `word`.
fn is_polite<P: Platform, C: Class>(place: &Place<'_, P, C>, word: u32) -> bool {
    let wakes = match word & STEALS < QUICK {
        _ if !place.is_last() && word & STEALS < FEW => POLITE.max(P::CROWD_WAKES),
        _ if !place.is_last() => P::CROWD_WAKES,
        true => POLITE,
        false => POLITE_QUICK,
    };
    word & STEALS != STEALS_MAX && place.first_for_ns() < P::wake_ns() * wakes
}

/// How long a newcomer spins before it joins the line, unless it watches for a first in line that
/// sleeps: about half of what a halt and a wake-up cost.
fn spin_newcomer_ns<P: Platform>() -> u64 {
    P::wake_ns() * 2 / 5
}

impl<P: Platform, C: Class> Hybrid<P, C> {
    /// How many acquisitions may pass a waiter while it is first in line.
    pub const MAX_BYPASS: u32 = STEALS_MAX / STEAL;

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
        let in_line = word & TAIL != 0 && !queue::is_begun::<P>(word);
        let due = word & (OFFER_EVERY - STEAL) == OFFER_EVERY - STEAL;
        if P::WAITS && in_line && word & HALTED == 0 && due {
            // The first in line is awake and has been passed often: it may want a processor.
            C::count(Event::PvYield);
            P::yield_to(None);
        }
        if self.steal_past_kicked(word) || self.try_steal(word) {
            if in_line {
                C::count(Event::PvLockStealing);
            }
            return true;
        }
        C::count(Event::LockSlowpath);
        let mut patience = Patience::recall::<P>(self.key());
        // The line has just passed this CPU, or whoever had the lock before.
        let passed = word & TAIL != 0 && word & STEALS == 0;
        if P::waits() && !passed && !patience.is_patient() && !patience.is_hopeless() {
            let taken = self.watch(&mut patience, deadline_ns);
            Slot::<P>::watch::<P::Word>(None);
            if taken {
                C::count(Event::PvLockStealing);
                return true;
            }
        }
        match Place::<P, C>::join(&self.word, steal::<P>, 0, deadline_ns) {
            Joined::Took => {
                C::count(Event::PvLockStealing);
                true
            }
            Joined::InLine(place, before) => match place.wait_turn(before, deadline_ns) {
                Some(place) => self.lock_first(place, patience, deadline_ns),
                None => false,
            },
            Joined::Late => false,
            Joined::NoNode => queue::wait_without_node::<P, C>(|| self.try_lock(), deadline_ns),
        }
    }

    #[inline]
    fn try_steal(&self, word: u32) -> bool {
        // ORDERING: Acquire, O1.
        steal::<P>(word)
            .is_some_and(|new| self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok())
    }

    /// Now and then: `(n,s,1,0,0) -> (n+1,s,0,0,1)`, if the first in line has been kicked and waits
    /// for a processor that nobody can give it. Until it halts again, releases need not look for
    /// it.
    fn steal_past_kicked(&self, word: u32) -> bool {
        let vain = P::WAITS && !P::YIELDS && word & HALTED != 0;
        let due = vain && word & (LOOK_EVERY - STEAL) == 0;
        let Some(new) = steal::<P>(word).filter(|_| due && queue::first_is_late::<P>(self.key()))
        else {
            return false;
        };
        // ORDERING: Acquire, O1 and O3.
        if self.word.compare_exchange(word, new & !HALTED, Acquire, Relaxed).is_err() {
            return false;
        }
        // It may have come back since the look, and halted again: then that bit is gone (I6).
        queue::kick_found::<P, C>(self.key(), 0, false);
        true
    }

    /// Spins for the lock outside the line, for a moment; in unfair mode for longer, on behalf of
    /// the first in line. Returns whether it has the lock.
    fn watch(&self, patience: &mut Patience, deadline_ns: Option<u64>) -> bool {
        let mut spin = Spin::new(spin_newcomer_ns::<P>());
        let mut announced = false;
        let mut more = true;
        loop {
            let word = self.word.load(Relaxed);
            if let Some(new) = steal::<P>(word) {
                if patience.probe::<P>(self.key(), || self.stays_free(word)) {
                    more = !patience.is_patient();
                    continue;
                }
                let new = if announced { new & !SPINNER } else { new };
                // ORDERING: Acquire, O1. (n,s,h,0,0) -> (n+1,0,h,0,1)
                if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                    return true;
                }
            } else if more {
                let has_line = word & TAIL != 0 && !queue::is_begun::<P>(word);
                if !announced && has_line && word & SPINNER == 0 {
                    Slot::<P>::watch(Some((&raw const self.word, queue::mend::<P>)));
                    // (n,0,h,p,1) -> (n,1,h,p,1)
                    announced = self.swap_relaxed(word, word | SPINNER);
                }
                let needed = || self.first_sleeps_for_ns() < POLITE * P::wake_ns();
                more = spin.pause::<P>(patience.pauses(word).0)
                    || announced && is_unfair(word) && needed();
                more &= deadline_ns.is_none_or(|at| P::now_ns() < at);
            } else if !announced || self.swap_relaxed(word, word & !SPINNER) {
                // (n,1,h,p,l) -> (n,0,h,p,l) (I4)
                return false;
            }
        }
    }

    /// Leaves a lock alone that was just free, in state `word`, for as long as a holder needs to
    /// come straight back. Returns whether nobody has taken it meanwhile.
    fn stays_free(&self, word: u32) -> bool {
        patience::hold_back::<P>();
        let now = self.word.load(Relaxed);
        now & (LOCKED | STEALS) == word & STEALS
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
        let mut spin = Spin::new(stuck_ns::<P>());
        loop {
            let mut word = self.word.load(Relaxed);
            if word & LOCKED == 0 {
                // Nobody who has a deadline leaves a free lock alone.
                let takes = declared || word & PENDING != 0 || deadline_ns.is_some();
                if takes || !is_polite(&place, word) || self.stays_free(word) {
                    match place.take() {
                        Ok(()) => return true,
                        Err(same) => place = same,
                    }
                } else {
                    word = self.word.load(Relaxed);
                }
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                place.give_up();
                return false;
            }
            if !declared && !is_polite(&place, word) {
                // (n,s,0,0,l) -> (n,s,0,1,l)
                self.word.fetch_or(PENDING, Relaxed);
                declared = true;
            }
            let (pauses, changed) = patience.pauses(word);
            if changed {
                spin = Spin::new(stuck_ns::<P>());
            }
            let pauses = if declared { 1 } else { pauses };
            let stuck = !patience.is_hopeless() && !spin.pause::<P>(pauses);
            if stuck {
                patience.despair::<P>(self.key());
            }
            if patience.is_hopeless() {
                place.halt_first(place.first_for_ns() >= PASSED * P::wake_ns(), deadline_ns);
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
            queue::kick_first::<P, C>(key, 2 * POLITE * P::wake_ns(), true);
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
        if queue::release_alone::<P>(&self.word) {
            return;
        }
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
