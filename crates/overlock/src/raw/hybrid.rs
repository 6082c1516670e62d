// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Hybrid`: a line whose head may be passed for a while, but not for ever (S4).
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::queue::{
    self, HALTED, Joined, LOCKED, PENDING, Place, SPINNER, STEAL, STEALS, TAIL,
};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::Platform;
use crate::raw::{ConstLock, RawLock, RawTimedLock};
use crate::spin::Spin;

/// How long the first in line lets others pass before it declares itself.
const POLITE_NS: u64 = 60_000;
/// How long a declared first in line spins before it halts.
const SPIN_DECLARED_NS: u64 = 20_000;
/// For how long in all a first in line that halts lets others pass meanwhile.
const PASSED_NS: u64 = 1_000_000;
/// How long a newcomer in unfair mode spins.
const SPIN_NEWCOMER_NS: u64 = 10_000;
/// How long a CPU without a queue node naps between two tries.
const NAP_NS: u64 = 50_000;
/// A release in unfair mode looks at the clock once in so many steals (a power of two).
const CLOCK_EVERY: u32 = 8;

/// The hybrid queued and unfair lock. See the [module documentation](self).
pub struct Hybrid<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

impl<P: Platform, C: Class> Hybrid<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    /// An unlocked lock.
    pub const fn new() -> Self {
        Self::with(P::Word::ZERO)
    }
}

/// How a newcomer takes a lock in state `word`, if it may.
#[inline]
fn steal(word: u32) -> Option<u32> {
    if word & (LOCKED | PENDING) != 0 {
        None
    } else if word & TAIL == 0 {
        Some(word | LOCKED)
    } else if word & STEALS == STEALS {
        None
    } else {
        Some((word | LOCKED) + STEAL)
    }
}

impl<P: Platform, C: Class> Hybrid<P, C> {
    /// The bypass bound.
    pub const MAX_BYPASS: u32 = STEALS / STEAL;

    /// An unlocked lock in a cell that holds zero, for platforms whose cells can't be constants.
    pub const fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        let word = self.word.load(Relaxed);
        if let Some(new) = steal(word) {
            // ORDERING: Acquire
            if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                C::count(Event::PvLockStealing);
                return true;
            }
        }
        C::count(Event::LockSlowpath);
        if P::WAITS && self.spin_unfair() {
            C::count(Event::PvLockStealing);
            return true;
        }
        match Place::<P, C>::join(&self.word, steal) {
            Joined::Took => {
                C::count(Event::PvLockStealing);
                true
            }
            Joined::InLine(place, before) => match place.wait_turn(before, deadline_ns) {
                Some(place) => self.lock_first(place, deadline_ns),
                None => false,
            },
            Joined::NoNode => self.lock_without_node(deadline_ns),
        }
    }

    /// Unfair mode: while the first in line sleeps, one newcomer spins for the lock.
    fn spin_unfair(&self) -> bool {
        let mut spin = Spin::new(SPIN_NEWCOMER_NS);
        let mut patience = Patience::new();
        let mut mine = false;
        let mut more = true;
        loop {
            let word = self.word.load(Relaxed);
            if let Some(new) = steal(word) {
                let new = if mine { new & !SPINNER } else { new };
                // ORDERING: Acquire
                if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            let unfair = word & HALTED != 0 && word & PENDING == 0 && word & STEALS != STEALS;
            if !mine {
                if !unfair || word & SPINNER != 0 {
                    return false;
                }
                mine = self.word.compare_exchange(word, word | SPINNER, Relaxed, Relaxed).is_ok();
            } else if !unfair || !more {
                if self.word.compare_exchange(word, word & !SPINNER, Relaxed, Relaxed).is_ok() {
                    return false;
                }
            } else {
                more = spin.pause::<P>(patience.next(word));
            }
        }
    }

    /// Takes the lock as the first in line.
    fn lock_first(&self, mut place: Place<'_, P, C>, deadline_ns: Option<u64>) -> bool {
        let mut patience = Patience::new();
        let mut declared = false;
        let mut spin = Spin::new(SPIN_DECLARED_NS);
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
            if declared {
                if !spin.pause::<P>(2) {
                    place.halt_first(place.first_for_ns() >= PASSED_NS, deadline_ns);
                    declared = false;
                    spin = Spin::new(SPIN_DECLARED_NS);
                }
            } else if word & STEALS == STEALS || place.first_for_ns() >= POLITE_NS {
                self.word.fetch_or(PENDING, Relaxed);
                declared = true;
            } else {
                for _ in 0..patience.next(word) {
                    P::relax();
                }
            }
        }
    }

    /// Waits without a node: outside the line, by trying.
    fn lock_without_node(&self, deadline_ns: Option<u64>) -> bool {
        let mut spin = Spin::new(SPIN_NEWCOMER_NS);
        loop {
            if self.try_lock() {
                return true;
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
            if !spin.again::<P>() {
                P::nap(NAP_NS);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn kick(address: *const P::Word, word: u32) {
        let spinner = word & SPINNER != 0 && word & PENDING == 0 && word & STEALS != STEALS;
        if !spinner {
            queue::kick_first::<P, C>(address, 0);
        } else if (word & STEALS) / STEAL % CLOCK_EVERY == 0 {
            queue::kick_first::<P, C>(address, POLITE_NS);
        }
    }
}

/// How often to look at a lock that somebody else has.
struct Patience {
    pauses: u32,
    last: Option<u32>,
}

impl Patience {
    const FIRST: u32 = 24;
    const LONG_SECTION: u32 = 3;
    const MAX: u32 = 400;

    const fn new() -> Self {
        Self { pauses: Self::FIRST, last: None }
    }

    /// How many pauses to make before the next look, after this look found `word`.
    fn next(&mut self, word: u32) -> u32 {
        let steals = word & (STEALS | TAIL);
        match self.last.replace(steals) {
            None => Self::FIRST,
            Some(last) if (last ^ steals) & STEALS == 0 => Self::LONG_SECTION,
            Some(_) => {
                self.pauses = (self.pauses * 2).min(Self::MAX);
                self.pauses
            }
        }
    }
}

// SAFETY: `LOCKED` is set by a successful CAS from a word without it, and cleared only by `unlock`; the Acquire of
// each such CAS and the Release of `unlock` order the sections.
unsafe impl<P: Platform, C: Class> RawLock for Hybrid<P, C> {
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
        // ORDERING: Acquire, with the Release of `unlock`.
        steal(word)
            .is_some_and(|new| self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok())
    }

    #[inline]
    unsafe fn unlock(&self) {
        let address = ptr::from_ref(&self.word);
        // ORDERING: Release, with the Acquire of every taking CAS. (t,h,p,1) -> (t,h,p,0); not touched again (F4).
        let word = self.word.fetch_sub(LOCKED, Release);
        if word & HALTED != 0 {
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

impl<P: Platform, C: Class> ConstLock for Hybrid<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    const NEW: Self = Self::new();
}

impl<P: Platform, C: Class> fmt::Debug for Hybrid<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hybrid").field("locked", &self.is_locked()).finish_non_exhaustive()
    }
}
