//! Newcomers: CPUs that want the lock and have not joined the queue.
//!
//! A running newcomer takes a free lock, past a queue whose head can be passed (a *steal*, counted
//! in the word). It spins for a moment, then marks the word `PARKED` and halts on it; a release
//! clears the mark and wakes one such waiter, which spins again. So as long as nobody waits for
//! long, the lock is a test-and-set lock: no waiter is next by right, and none that sleeps is
//! waited for. A waiter that has waited for [`Costs::outside_wakes`] joins the queue when it is
//! next awake.
//!
//! # The mark
//!
//! Halt and release race on the word, as in `park.rs`. Who was woken may have been woken in place
//! of another, so a waiter that has halted takes the lock, joins the queue or gives up with the
//! mark set: the next release passes the wake-up on.
//!
//! # The note
//!
//! Where releases are cheap, one that began before there were waiters may miss the mark (Q7). A
//! `membarrier` cuts it off, but interrupts all threads of the process: paid at each halt, it is
//! the largest part of what short sections cost. So a waiter that has spun for half of its time
//! leaves a note in the upper half of the word, which makes releases look, and the first release
//! that sees the note says so:
//!
//! ```text
//!   release                                 newcomer
//!   sequence: upper half == 0?
//!                                       A   CAS word: 0 -> NOTED
//!             low byte = 0                  spins on
//!   another CPU takes the lock
//!   sequence: upper half != 0
//!   CAS word: NOTED -> SEEN, free       B
//!                                       C   CAS word: SEEN -> SEEN, PARKED; halts
//! ```
//!
//! B is the release of a CPU that took the lock after A, or that held it at A and had not begun its
//! release. So no sequence that began before A is under way at B, and none begins until the upper
//! half is zero again: who halts at C is seen. A release that clears `PARKED` leaves `SEEN` behind
//! for the same reason: a waiter that was woken in vain and halts again relies on that. Only a
//! waiter that finds nothing to rely on calls `membarrier`, and looks again. One that finds the
//! mark or the queue of others relies on theirs: whoever was first looks again, and takes a lock
//! that was released meanwhile; a queue head that gives up sees to it before. (If who was first is
//! stopped between its mark and its `membarrier`, others may sleep at a free lock until it goes on,
//! or the next release that finds the mark.)
//!
//! Whoever left a note, or has halted, wipes the note when it takes the lock, joins the queue or
//! leaves late; others who still spin leave theirs again. If a waiter that has halted takes the
//! lock it sets `PARKED` and `LAST`, which no halt that follows keeps, and its release leaves zero.
//! So a lock without waiters has the bytes of a new one.
//!
//! # Handing over
//!
//! A fair release of a lock without a queue wakes one that has halted on the word, and reserves the
//! lock for those that have: `NO_STEALING` without a tail. It wakes before it releases, because the
//! lock may be gone afterwards, and it reserves only if there was one to wake. The woken waiter
//! takes the lock, or halts again with the mark, or leaves and takes the reservation away.
//!
//! [`Costs::outside_wakes`]: crate::platform::Costs::outside_wakes

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::wait::Outside;
use super::{Order, QueueLock};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::park;
use crate::platform::{CheapRelease, Costs, Platform};
use crate::raw::word::queue::{LockWord, cas, update};
use crate::spin::Spin;
use crate::waiters::NAP_NS;

/// What a waiter that is about to halt outside the queue has done.
enum Marked {
    /// It has taken the lock.
    Took,
    /// It can halt while the word is this one: the release will wake it.
    Halts(LockWord),
    /// A release that is under way may have missed the mark.
    Unsure,
}

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Waits outside the queue: spins for a moment, halts on the word until a release wakes it, and
    /// so on.
    pub(super) fn lock_outside(&self, has_parked: &mut bool, deadline_ns: Option<u64>) -> Outside {
        let costs = P::costs();
        let mut join_ns = None;
        let mut reserved = None;
        let mut is_unsure = false;
        loop {
            if self.spin_as_newcomer(costs, *has_parked, deadline_ns) {
                return Outside::Took;
            }
            let now_ns = P::now_ns();
            if deadline_ns.is_some_and(|at| now_ns >= at) {
                return self.leave_late(*has_parked, is_unsure);
            }
            // No release ends a wait for a lock that is free, and reserved in vain.
            let found = self.look().reservation();
            let last = reserved.filter(|&(last, _)| Some(last) == found);
            reserved = last.or(found.map(|now| (now, now_ns.saturating_add(costs.reserved_ns))));
            if last.is_some_and(|(now, at)| now_ns >= at && self.take_past_reservation(now)) {
                return Outside::Took;
            }
            if now_ns >= *join_ns.get_or_insert(now_ns.saturating_add(costs.outside_ns())) {
                return Outside::Waited;
            }
            let until_ns = reserved.map(|(_, at)| at).filter(|&at| at < u64::MAX);
            let until_ns = until_ns.into_iter().chain(deadline_ns).min();
            let mut marked = Marked::Took;
            let mark = || {
                marked = self.take_or_mark(*has_parked, is_unsure, LockWord::parked);
                if let Marked::Halts(word) = marked { Some(word.bits()) } else { None }
            };
            let halted = park::park::<P>(&self.word, park::Class::ONLY, until_ns, mark);
            if matches!(marked, Marked::Took) {
                return Outside::Took;
            }
            is_unsure = !halted;
            if is_unsure {
                P::nap(NAP_NS);
            }
            C::count(if *has_parked { Event::PvWaitAgain } else { Event::PvWaitNode });
            *has_parked = true;
        }
    }

    /// Takes the lock, or `marks` that this waiter is about to halt. `is_unsure` says that its last
    /// mark may have been missed.
    fn take_or_mark(
        &self,
        has_parked: bool,
        is_unsure: bool,
        marks: fn(LockWord) -> LockWord,
    ) -> Marked {
        // Where waiters are found in a table, a release may have kicked this one before it halts,
        // in place of another.
        let mut passes_on = has_parked || !P::KICKS_BY_ADDRESS;
        loop {
            let new = |seen: LockWord| match seen.taken_by_newcomer(passes_on) {
                Some(new) if passes_on => Some(new.passed_on()),
                Some(new) => Some(new.without_note()),
                None => Some(marks(seen)),
            };
            // ORDERING: Acquire, O1, where it takes; Release, O3, where it marks.
            let Ok((before, now)) = update(&self.word, AcqRel, new) else { unreachable!() };
            if before.taken_by_newcomer(passes_on).is_some() {
                return Marked::Took;
            }
            if !P::Release::EXISTS || before.is_seen() && !is_unsure {
                return Marked::Halts(now);
            }
            if !P::Release::membarrier() {
                return Marked::Unsure;
            }
            let seen = self.look();
            if seen.taken_by_newcomer(passes_on).is_none() {
                return Marked::Halts(seen.parked());
            }
            // The mark is there, and may be the last.
            passes_on = true;
        }
    }

    /// Leaves at the deadline. The release that ended the last halt may have meant another waiter:
    /// the mark passes that on. A lock that is handed over becomes one for all.
    #[cold]
    fn leave_late(&self, has_parked: bool, is_unsure: bool) -> Outside {
        if has_parked {
            match self.take_or_mark(true, is_unsure, LockWord::left) {
                Marked::Took => return Outside::Took,
                Marked::Halts(_) => {}
                Marked::Unsure => {
                    P::nap(NAP_NS);
                    if !self.look().is_locked() {
                        Self::wake_parked(ptr::from_ref(&self.word));
                    }
                }
            }
        } else {
            // (NOTED,..) -> (0,..). Beside a mark, what stands there is another's.
            let wipes = |seen: &LockWord| !seen.has_parked() && *seen != seen.without_note();
            let wiped = |seen: LockWord| Some(seen).filter(wipes).map(LockWord::without_note);
            let _ = update(&self.word, Relaxed, wiped);
        }
        C::count(Event::LockTimeout);
        Outside::Late
    }

    /// Spins for the lock outside the queue. Returns whether it took the lock.
    fn spin_as_newcomer(&self, costs: Costs, has_parked: bool, deadline_ns: Option<u64>) -> bool {
        // A wait that does not spin says nothing of spins.
        let learns = P::in_vain().filter(|_| costs.spins);
        let in_vain = learns.map_or(0, |vain| vain.load(Relaxed));
        let mut spin = Spin::of_newcomer(costs, has_parked, in_vain);
        loop {
            // (0,0,0,0,0) -> (0,0,0,0,1), or past a queue (t,0,h,n,0) -> (t,0,h,n+1,1)
            let seen = self.look();
            if let Some(new) = seen.taken_by_newcomer(has_parked) {
                let new = if has_parked { new.passed_on() } else { new.without_note() };
                // ORDERING: Acquire, O1.
                if cas(&self.word, seen, new, Acquire).is_ok() {
                    if let Some(vain) = learns.filter(|_| in_vain > 0 && spin.has_begun()) {
                        vain.store(0, Relaxed);
                    }
                    return Self::has_stolen();
                }
            } else if O::UNFAIR
                && P::Release::EXISTS
                && spin.is_half_spent()
                && let Some(noted) = seen.noted()
            {
                // (0,..) -> (NOTED,..). The release that sees it is a read-modify-write.
                let _ = cas(&self.word, seen, noted, Relaxed);
            }
            if seen.has_parked() {
                return false;
            }
            let goes_on = spin.goes_on::<P>();
            if let Some(vain) = learns.filter(|_| !goes_on) {
                vain.store(in_vain.saturating_add(1), Relaxed);
            }
            if !goes_on || deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                return false;
            }
        }
    }

    /// Wakes one waiter that has halted on the word. Only the address is used.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_parked(word: *const P::Word) {
        C::count(Event::PvKickUnlock);
        park::unpark_one::<P>(word, park::Class::ONLY);
    }

    /// Waits for the lock without a node (F7), outside the queue: spins, and naps in between.
    /// Returns whether it took the lock.
    pub(super) fn wait_without_node(&self, deadline_ns: Option<u64>) -> bool {
        while !self.spin_as_newcomer(P::costs(), false, deadline_ns) {
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
            P::nap(NAP_NS);
        }
        true
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use super::*;
    use crate::counters::Uncounted;
    use crate::one_cpu::one_cpu;
    use crate::platform::Threads;
    use crate::raw::queue::order::Unfair;

    one_cpu!(Alone, NOW_NS, || {});

    #[test]
    fn a_wait_that_does_not_spin_is_no_spin_in_vain() {
        let held = QueueLock::<Threads, Unfair, Uncounted>::new();
        held.word.store(LockWord::HELD.bits(), Relaxed);
        let waits = || assert!(!held.spin_as_newcomer(Threads::costs(), false, None));
        let count = || Threads::cpu().and(Threads::in_vain()).map(|vain| vain.load(Relaxed));
        let before = count();
        Threads::without_spinning(waits);
        assert!(before.is_some() && count() == before);
    }

    #[test]
    fn who_always_spins_in_vain_soon_spins_for_a_moment_only() {
        let held = QueueLock::<Alone, Unfair, Uncounted>::new();
        held.word.store(LockWord::HELD.bits(), Relaxed);
        let spins: [u64; 12] = core::array::from_fn(|_| {
            let since = NOW_NS.load(Relaxed);
            assert!(!held.spin_as_newcomer(Alone::costs(), false, None));
            NOW_NS.load(Relaxed) - since
        });
        assert!(spins[1..4].iter().all(|&ns| ns == spins[0]), "{spins:?}");
        assert!(spins[3..9].is_sorted_by(|longer, shorter| longer > shorter), "{spins:?}");
        assert!(spins[9..].iter().all(|&ns| ns == spins[8] && 10 * ns < spins[0]), "{spins:?}");
    }
}
