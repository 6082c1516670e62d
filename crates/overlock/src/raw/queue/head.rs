// SPDX-License-Identifier: MIT OR Apache-2.0
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

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::enqueue::Place;
use super::kick::passed_ns;
use super::pace::{self, Pace};
use super::{NAP_NS, Order};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::queue::{LockWord, rmw, update};
use crate::slot::state;
use crate::waiters;

impl<P: Platform, O: Order, C: Class> Place<'_, P, O, C> {
    /// Whether stealing is disabled from the start, and not only when the tenure is over.
    pub(super) const STRICT: bool = !O::UNFAIR || !P::WAITS;
    /// How often the queue head can carry.
    pub(super) const CARRIES: u32 = pace::carries(!Self::STRICT, P::YIELDS);

    /// Takes the lock as the head of the queue. Returns false if the deadline passed first.
    pub(super) fn lock_as_head(mut self, deadline_ns: Option<u64>) -> bool {
        let mut pace = Pace::of_head(P::costs(), O::UNFAIR);
        let (mut disabled, mut steals, mut carries) = (false, 0, 0);
        loop {
            let due = Self::STRICT || pace.has_read_clock() && self.is_tenure_over();
            if due && !disabled {
                // (t,s,0,h,n,l) -> (t,s,1,h,n,l)
                self.word.fetch_or(rmw::DISABLE_STEALING, Relaxed);
                disabled = true;
                // This is no steal.
                steals |= 1;
            }
            let seen = self.look();
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
            if !pace.goes_on::<P>() {
                self.halt_as_head(deadline_ns);
                disabled = self.look().is_stealing_disabled();
                pace.begin_again();
            } else if pace.has_read_clock() && seen.steals() != steals {
                // The lock changes hands, so its holders are running.
                let carry = carries < Self::CARRIES && seen.can_carry() && !self.is_tenure_over();
                carries += u32::from(carry);
                steals = if carry { self.carry() } else { seen }.steals();
                pace.begin_again();
            }
        }
    }

    /// Whether this waiter's tenure, during which others can pass it, is over.
    fn is_tenure_over(&self) -> bool {
        pace::is_tenure_over(P::costs(), passed_ns::<P>(&self.node().since))
    }

    /// `(t,s,d,0,n,l) -> (t,s,d,0,n-2048,l)` (I2)
    fn carry(&self) -> LockWord {
        LockWord::new(self.word.fetch_and(rmw::CARRIED, Relaxed)).carried()
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
        state.store(state::HEAD_HALTED, Relaxed);
        let halts = |seen: LockWord| seen.is_locked().then(|| seen.head_halted(keep));
        // ORDERING: Release, Q-O3.
        let Ok((seen, _)) = update(self.word, Release, halts) else {
            waiters::remove::<P>(self.key, self.entered.id());
            return state.store(state::HEAD, Relaxed);
        };
        // The first may be no steal: it may have come with `NO_STEALING`.
        self.is_seen |= seen.steals() > 1;
        if self.is_kick_certain() {
            C::count(Event::PvWaitHead);
            P::wait(state, state::HEAD_HALTED, deadline_ns);
        }
        self.has_slept = true;
        self.come_back();
    }

    /// Whether the release that ends the wait will see that this waiter has halted (Q7).
    fn is_kick_certain(&mut self) -> bool {
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

    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::RawLock;
    use crate::counters::Uncounted;
    use crate::platform::{Costs, Threads};
    use crate::raw::queue::QueueLock;
    use crate::raw::queue::enqueue::Enqueued;
    use crate::raw::queue::one_cpu::one_cpu;
    use crate::raw::queue::order::Unfair;
    use crate::raw::queue::wait::Waited;

    crate::lock_class!(Passed);

    static LOCK: QueueLock<Threads, Unfair, Passed> = QueueLock::new();

    /// Passes a head that has halted, and waits until it halts again. Returns whether it can then
    /// be passed, or nothing if it took the lock first.
    fn is_passed_again() -> Option<bool> {
        let halts = || Passed::counters().get(Event::PvWaitHead);
        let halted_after = |before| {
            while halts() == before || !LOCK.look().is_head_halted() {
                thread::sleep(Duration::from_micros(50));
            }
        };
        // SAFETY: each caller holds the lock.
        let unlock = || unsafe { LOCK.unlock() };
        let before = halts();
        LOCK.lock();
        let head = thread::spawn(move || {
            LOCK.lock();
            unlock();
        });
        halted_after(before);
        let before = halts();
        unlock();
        // Behind the head, if that was faster.
        LOCK.lock();
        let passed = LOCK.look().has_queue().then(|| {
            halted_after(before);
            LOCK.look().admits_newcomers()
        });
        unlock();
        head.join().unwrap();
        passed
    }

    #[test]
    fn a_head_that_halts_after_its_tenure_is_passed_no_more() {
        let passed_again = core::iter::repeat_with(is_passed_again).flatten().next();
        assert_eq!(passed_again, Some(false));
    }

    one_cpu!(Carrying, CARRYING_NS, None::<fn()>, {
        be_passed();
        Costs::DEFAULT.with_wake_ns(WAKE_NS.load(Relaxed))
    });
    static PASSED_ON: QueueLock<Carrying, Unfair> = QueueLock::new();
    static WAKE_NS: AtomicU64 = AtomicU64::new(0);
    static PASSES: AtomicU32 = AtomicU32::new(0);

    /// Others pass the queue head as often as its lock lets them, but at most 3,000 times.
    fn be_passed() {
        let mut seen = PASSED_ON.look().released(false);
        for _ in 0..3_000 {
            let Some(taken) = seen.taken_by_newcomer() else { break };
            PASSES.fetch_add(1, Relaxed);
            PASSED_ON.word.store(taken.bits(), Relaxed);
            seen = taken.released(false);
        }
    }

    #[test]
    fn a_head_that_can_not_yield_carries_in_its_tenure_up_to_the_bound() {
        let passes_in = |wake_ns, joins_at_ns| {
            WAKE_NS.store(wake_ns, Relaxed);
            CARRYING_NS.store(joins_at_ns, Relaxed);
            PASSED_ON.word.store(LockWord::new(0).taken_by_newcomer().unwrap().bits(), Relaxed);
            let place = match Place::<Carrying, Unfair, Uncounted>::enqueue(&PASSED_ON.word) {
                Enqueued::Behind(place, None) => place,
                _ => panic!("the queue was empty"),
            };
            let Waited::Head(head) = place.wait_to_be_head(None, None) else { panic!("alone") };
            PASSES.store(0, Relaxed);
            assert!(!head.lock_as_head(Some(Carrying::now_ns() + 100_000)));
            PASSES.load(Relaxed)
        };
        let bound = QueueLock::<Carrying, Unfair>::MAX_BYPASS;
        assert_eq!(bound, 65_535);
        // The count skips some values.
        let nearly = |bound: u32| bound - bound / 100..=bound;
        let passes = passes_in(1_000_000, 0);
        assert!(nearly(bound).contains(&passes), "{passes}");
        // A tenure of 1 us is over when the clock's next unit begins: at the first look, 160 ns
        // after the waiter has become the queue head.
        let passes = passes_in(100, 2 * 1_024 - 100);
        assert!(nearly(LockWord::STEALS_MAX).contains(&passes), "{passes}");
    }
}
