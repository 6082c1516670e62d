// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a read-write lock: outside the queue, then in it, then as its head.
//!
//! A newcomer spins for as long as a halt would cost it, because most sections end sooner. A reader
//! then halts beside the queue, in the *crowd*, which is woken as a whole. When its patience is
//! over, it does what a writer does at once: it takes the queue, which is a lock, and behind others
//! halts there. With the queue taken it is the head, bars newcomers, and waits for the word. It
//! does not yield: it may be away for milliseconds, and the lock stays barred.
//!
//! # The crowd
//!
//! ```text
//!   reader                                 release of a writer, a head that takes or gives up, ...
//!   CAS word: CROWD set, still no room     RMW word: newcomers have room, and no head waits
//!   ok: halt, until kicked or out of       found CROWD: kick
//!       patience
//!   failed: look again
//! ```
//!
//! Both change one word. If the RMW comes first, the CAS fails, and the reader finds room or tries
//! again. If the CAS does, the RMW finds `CROWD`. A CPU that finds the word with room and without a
//! head may clear `CROWD`: the change that made the room found it, and kicks.
//!
//! While a queue head waits, it goes first, and the crowd is not kicked. Patience bounds that.
//!
//! # A head that wakes up
//!
//! A head that has halted is kicked by the last reader or the writer that leaves. The lock would
//! lie idle until the head is awake, so a writer's release lets 32 newcomers pass, in the access
//! that clears `HALTED`. When the head is back it bars them again; after 16 halts, for good. A
//! reader's release lets none pass: one reader with long sections would keep the head and the crowd
//! waiting for each of those halts.

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

/// A newcomer that wants to write spins for a fifth of the time: readers whose sections overlap
/// leave it no room, and only with the queue can it keep the next ones out. Any value is correct.
const WRITERS_PART: u64 = 5;

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
        if want == Want::Read && P::WAITS && P::waits() && self.wait_in_crowd(deadline_ns) {
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
        let part = if want == Want::Write { WRITERS_PART } else { 1 };
        let mut spin = Spin::new(P::costs().spin_ns() / part);
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

    /// Halts beside the queue until the lock can be read, or out of patience. Returns whether it
    /// took the lock.
    fn wait_in_crowd(&self, deadline_ns: Option<u64>) -> bool {
        let until_ns = P::now_ns().saturating_add(P::costs().patience_ns());
        let until_ns = until_ns.min(deadline_ns.unwrap_or(u64::MAX));
        loop {
            if self.try_take(Want::Read) {
                return true;
            }
            let mark = || {
                // ORDERING: Release, R-O3. (r,p,h,u,w) -> (r,p,h,u,w), CROWD
                update(&self.word, Release, RwWord::crowded)
                    .ok()
                    .and_then(RwWord::crowded)
                    .map(RwWord::bits)
            };
            if park::park::<P>(&self.word, Some(until_ns), mark) {
                C::count(Event::PvWaitNode);
            } else {
                P::relax();
            }
            if P::now_ns() >= until_ns {
                return self.try_take(Want::Read);
            }
        }
    }

    /// Takes the lock as the queue head. Returns false if the deadline passed first.
    fn lock_as_head(&self, want: Want, deadline_ns: Option<u64>) -> bool {
        // Where no CPU is ever taken away, a strict order costs nothing.
        let mut halts = if P::WAITS && P::waits() { 0 } else { RwWord::PASSED_HALTS };
        let mut is_barred = false;
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
                    Self::kick_for(&raw const self.word, seen, new);
                    return true;
                }
                continue;
            }
            if is_late::<P>(deadline_ns) {
                // (r,p,h,u,w) -> (r,0,0,u,w)
                let before = self.word.fetch_and(rmw::NO_HEAD, Relaxed);
                let after = RwWord::new(before & rmw::NO_HEAD);
                Self::kick_for(&raw const self.word, RwWord::new(before), after);
                return false;
            }
            if !is_barred {
                // (r,p,h,u,w) -> (r,full,h,u,w)
                let for_good = halts >= RwWord::PASSED_HALTS;
                let _ = update(&self.word, Relaxed, |seen| Some(seen.barred(for_good)));
                is_barred = true;
            }
            if !spin.pause::<P>() {
                self.halt_as_head(want, deadline_ns);
                (halts, is_barred) = (halts.saturating_add(1), false);
                spin = budget::<P>();
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
