// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a read-write lock: outside the queue, then in it, then as its head.
//!
//! A newcomer spins for as long as a halt would cost it, because most sections end sooner. Then it
//! takes the queue, which is a lock: behind others it halts there. With the queue taken it is the
//! head, and waits for the word; first it lets running CPUs pass, counted, and when its tenure is
//! over it bars them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::RawRwLock;
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::entered::Entered;
use crate::park;
use crate::platform::{Bias, Platform};
use crate::raw::word::read_write::{RwWord, Want, cas, rmw, update};
use crate::raw::{RawLock, RawTimedLock};
use crate::slot::Care;
use crate::spin::Spin;
use crate::waiters::NAP_NS;

/// The time that a waiter has left to spin.
pub(super) fn budget<P: Platform>() -> Spin {
    Spin::new(P::costs().spin_ns())
}

/// Whether the deadline has passed.
pub(super) fn is_late<P: Platform>(deadline_ns: Option<u64>) -> bool {
    deadline_ns.is_some_and(|at| P::now_ns() >= at)
}

impl<P: Platform, C: Class, B: Bias<P>> RawRwLock<P, C, B> {
    /// Waits for the lock. Returns false if the deadline passed first.
    #[cold]
    #[inline(never)]
    pub(super) fn lock_slow(&self, want: Want, deadline_ns: Option<u64>) -> bool {
        C::count(Event::LockSlowpath);
        // Only the queue head ends a bias, so to spin for that would be in vain.
        let spins = P::WAITS && P::waits() && !Self::must_end_bias(self.look(), want);
        if spins && self.spin_as_newcomer(want, deadline_ns) {
            C::count(Event::PvLockStealing);
            return true;
        }
        let trace = self.trace();
        let is_head = match deadline_ns {
            None => {
                self.queue.lock();
                true
            }
            Some(at) => self.queue.try_lock_until(at),
        };
        let taken = is_head && self.lock_as_head(want, deadline_ns);
        if is_head {
            // SAFETY: taken above.
            unsafe { self.queue.unlock() };
        }
        drop(trace);
        C::count(if taken { Event::LockQueued } else { Event::LockTimeout });
        taken
    }

    /// Leaves a trace, before this CPU takes the queue: a forked child has no queue head.
    pub(super) fn trace(&self) -> Option<Entered<P>> {
        let entered = Entered::<P>::new();
        if let Some(entered) = &entered {
            entered.trace(self, Self::CARE);
        }
        entered
    }

    const CARE: &'static Care = &Care { mend: Self::mend, give_up: |_, _, _| false };

    /// Removes all waiters, of which the queue head holds the queue. Who holds the lock, and for
    /// what, stays as it was.
    ///
    /// # Safety
    /// The address is that of a live lock, which no other CPU uses at the same time.
    unsafe fn mend(lock: *const ()) {
        // SAFETY: the caller's.
        let lock = unsafe { &*lock.cast::<Self>() };
        if lock.look().is_folding() {
            lock.fold();
        }
        lock.word.fetch_and(rmw::NO_WAITERS, Relaxed);
        if lock.queue.is_locked() {
            // SAFETY: the CPU that had the queue is gone.
            unsafe { lock.queue.unlock() };
        }
    }

    /// Spins for the lock outside the queue. Returns whether it took the lock.
    fn spin_as_newcomer(&self, want: Want, deadline_ns: Option<u64>) -> bool {
        let mut spin = budget::<P>();
        let pauses = P::costs().pauses_per_look.max(1);
        loop {
            if self.try_take(want) {
                return true;
            }
            if !spin.pause_times::<P>(pauses) || is_late::<P>(deadline_ns) {
                return false;
            }
        }
    }

    /// Takes the lock as the queue head. Returns false if the deadline passed first.
    fn lock_as_head(&self, want: Want, deadline_ns: Option<u64>) -> bool {
        // Where no CPU is ever taken away, a strict order costs nothing.
        let mut bars = !P::WAITS || !P::waits();
        let (mut waits, mut due_ns) = (false, 0);
        let mut spin = budget::<P>();
        loop {
            let seen = self.look();
            if Self::must_end_bias(seen, want) {
                self.end_bias();
                continue;
            }
            if let Some(new) = seen.taken_by_head(want) {
                // ORDERING: Acquire, R-O1. (r,p,h,u,0) -> (r+1,0,0,u,0), (0,p,h,0,0) ->
                // (0,0,0,0,1)
                if cas(&self.word, seen, new, Acquire).is_ok() {
                    return true;
                }
                continue;
            }
            if !waits {
                // (r,0,0,u,w) -> (r,1,0,u,w), or full at once
                self.word.fetch_or(if bars { rmw::BAR } else { rmw::HEAD_WAITS }, Relaxed);
                due_ns = P::now_ns().saturating_add(P::costs().tenure_ns());
                waits = true;
            }
            if is_late::<P>(deadline_ns) {
                // (r,p,h,u,w) -> (r,0,0,u,w)
                self.word.fetch_and(rmw::NO_HEAD, Relaxed);
                return false;
            }
            let goes_on = spin.pause::<P>();
            if !bars && spin.has_read_clock() && P::now_ns() >= due_ns {
                // (r,p,h,u,w) -> (r,full,h,u,w)
                self.word.fetch_or(rmw::BAR, Relaxed);
                bars = true;
            }
            if !goes_on {
                let until_ns = [deadline_ns, (!bars).then_some(due_ns)];
                self.halt_as_head(want, until_ns.into_iter().flatten().min());
                spin = budget::<P>();
            } else if P::YIELDS && spin.has_read_clock() && P::waits() {
                C::count(Event::PvYield);
                spin.yield_now::<P>();
            }
        }
    }

    /// Halts until kicked, or until that time, if there is no room.
    fn halt_as_head(&self, want: Want, until_ns: Option<u64>) {
        let halts = |seen: RwWord| match seen.taken_by_head(want) {
            Some(_) => None,
            None => Some(seen.head_halted()),
        };
        let mark = || {
            // ORDERING: Release, R-O3. (r,p,0,u,w) -> (r,p,1,u,w)
            update(&self.word, Release, halts).ok().map(|seen| seen.head_halted().bits())
        };
        if park::park::<P>(&self.word, until_ns, mark) {
            C::count(Event::PvWaitHead);
            if self.look().is_head_halted() {
                // (r,p,1,u,w) -> (r,p,0,u,w)
                self.word.fetch_and(rmw::HEAD_IS_BACK, Relaxed);
            }
        }
    }

    /// Waits to read for a CPU that may be reading already, past waiting writers. Returns false if
    /// the deadline passed first.
    #[cold]
    #[inline(never)]
    pub(super) fn read_again_slow(&self, deadline_ns: Option<u64>) -> bool {
        let mut spin = budget::<P>();
        loop {
            let Err(seen) = self.take_again() else { return true };
            if !seen.is_folding() {
                // A writer holds the lock, or none reads it: this CPU reads nothing yet.
                break;
            }
            // The queue head is some instructions away from knowing the readers, of which this CPU
            // may be one: it must not queue behind the head, which would wait for it.
            if is_late::<P>(deadline_ns) {
                C::count(Event::LockTimeout);
                return false;
            }
            if !spin.pause::<P>() {
                P::nap(NAP_NS);
            }
        }
        self.lock_slow(Want::Read, deadline_ns)
    }
}
