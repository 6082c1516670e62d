//! The queue head: the one waiter that may take the lock out of the queue, disable stealing, or
//! halt on the lock.
//!
//! # The race of halt and release
//!
//! The queue head enters itself in the table, marks its node `HEAD_HALTED`, and sets `HALTED` in
//! the word by a CAS that fails once the lock is free. The release is a read-modify-write of the
//! same word, so one of the two comes first. If the release does, the CAS fails. If the CAS does,
//! the release returns `HALTED`, finds the entry and kicks.
//!
//! Where the platform has a [cheap release](CheapRelease), a release that began before there was a
//! queue may be between its comparison and its store, and miss the bit. Only the holder of that
//! moment can do so: every CPU that takes the lock later has seen the queue in the word (Q7). So a
//! head that joined an empty queue, and has seen no CPU take the lock since, calls `membarrier`
//! before it relies on the bit; `platform/release.rs` has the drawing.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::enqueue::Place;
use super::kick::passed_ns;
use super::order::Order;
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::queue::{LockWord, rmw, update};
use crate::slot::{NodeState, step};
use crate::spin::Spin;
use crate::waiters::{self, NAP_NS};

impl<P: Platform, O: Order, C: Class> Place<'_, P, O, C> {
    /// Whether stealing is disabled from the start, and not only when the tenure is over.
    pub(super) const STRICT: bool = !O::UNFAIR || !P::WAITS;

    /// Takes the lock as the head of the queue. Returns false if the deadline passed first.
    pub(super) fn lock_as_head(mut self, deadline_ns: Option<u64>) -> bool {
        let mut spin = Spin::of_head(P::costs(), O::UNFAIR);
        let mut disabled = false;
        loop {
            let due = Self::STRICT
                || spin.has_read_clock()
                    && passed_ns::<P>(&self.node().since) >= P::costs().tenure_ns();
            if due && !disabled {
                // (t,0,h,n,l) -> (t,1,h,n,l)
                self.word.fetch_or(rmw::DISABLE_STEALING, Relaxed);
                disabled = true;
            }
            let seen = self.look();
            if seen.is_head_absent() {
                // (t,..) -> (t,..), passed freely no more
                self.word.fetch_and(rmw::HEAD_IS_BACK, Relaxed);
                disabled = false;
            }
            if !seen.is_locked() {
                match self.take() {
                    Ok(()) => return true,
                    Err(same) => self = same,
                }
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                self.give_up();
                return false;
            }
            if !spin.goes_on::<P>() {
                self.halt_as_head(deadline_ns);
                disabled = self.look().is_stealing_disabled();
                spin.begin_again();
            }
        }
    }

    /// Takes the lock if it is free, and leaves the queue.
    fn take(self) -> Result<(), Self> {
        self.entered.has_got_to(step::MOVING);
        let id = self.entered.id();
        let takes =
            |seen: LockWord| (!seen.is_locked()).then(|| seen.taken_by_head(id, Self::STRICT));
        // ORDERING: Acquire: O1 and Q-O7.
        let Ok((_, now)) = update(self.word, Acquire, takes) else {
            self.entered.has_got_to(step::QUEUED);
            return Err(self);
        };
        C::count(Event::LockQueued);
        if now.has_queue() {
            self.hand_on(true);
        }
        Ok(())
    }

    /// Halts until kicked, if the lock is held.
    fn halt_as_head(&mut self, deadline_ns: Option<u64>) {
        let state = &self.node().state;
        if !waiters::insert::<P>(self.key, self.entered.id()) {
            C::count(Event::PvHashFull);
            return P::nap(NAP_NS);
        }
        // In strict order newcomers may pass a waiter during its first halt.
        let keep = O::UNFAIR || self.has_slept;
        state.store(NodeState::HEAD_HALTED, Relaxed);
        let halts = |seen: LockWord| seen.is_locked().then(|| seen.head_halted(keep));
        // ORDERING: Release, Q-O3.
        let Ok((seen, _)) = update(self.word, Release, halts) else {
            waiters::remove::<P>(self.key, self.entered.id());
            return state.store(NodeState::HEAD, Relaxed);
        };
        // The first may be no steal: it may have come with `NO_STEALING`.
        self.is_seen |= seen.steals() > 1;
        if self.is_kick_certain() {
            C::count(Event::PvWaitHead);
            state.wait::<P>(NodeState::HEAD_HALTED, deadline_ns);
        }
        self.has_slept = true;
        self.come_back();
    }

    /// Whether the release that ends the wait will see that this waiter, or one that relies on it,
    /// has halted (Q7).
    pub(super) fn is_kick_certain(&mut self) -> bool {
        if !P::Release::EXISTS || self.is_seen {
            return true;
        }
        self.is_seen = P::Release::membarrier();
        if !self.is_seen {
            P::nap(NAP_NS);
        }
        self.is_seen && self.look().is_locked()
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use std::sync::Mutex;
    use std::vec::Vec;

    use super::*;
    use crate::counters::Uncounted;
    use crate::one_cpu::one_cpu;
    use crate::raw::queue::QueueLock;
    use crate::raw::queue::enqueue::Enqueued;
    use crate::raw::queue::order::Unfair;

    one_cpu!(Alone, NOW_NS, halts);

    static HELD: QueueLock<Alone, Unfair> = QueueLock::new();
    static HALTS: Mutex<Vec<bool>> = Mutex::new(Vec::new());

    /// Each halt lasts 20 us. The tenure takes 50.
    fn halts() {
        HALTS.lock().unwrap().push(HELD.look().admits_newcomers());
        NOW_NS.fetch_add(20_000, Relaxed);
    }

    #[test]
    fn a_head_that_halts_after_its_tenure_is_passed_no_more() {
        HELD.word.store(LockWord::HELD.bits(), Relaxed);
        let enqueued = Place::<Alone, Unfair, Uncounted>::enqueue(&HELD.word, false);
        let Enqueued::Head(head) = enqueued else {
            panic!("the queue was empty");
        };
        assert!(!head.lock_as_head(Some(130_000)));
        let halts = HALTS.lock().unwrap();
        let passed = halts.iter().take_while(|&&admits| admits).count();
        assert!(passed == 2 && halts.len() > 3, "{halts:?}");
        assert!(halts[passed..].iter().all(|admits| !admits), "{halts:?}");
    }
}
