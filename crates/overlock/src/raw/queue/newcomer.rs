// SPDX-License-Identifier: MIT OR Apache-2.0
//! Newcomers: CPUs that want the lock and have not joined the queue.
//!
//! A running newcomer takes a free lock past a queue whose head can be passed (a *steal*, counted
//! in the word). It spins for the lock, yields its processor now and then where the platform can,
//! and joins the queue when its budget is spent. While stealing is disabled it can't
//! take the lock, but it stays as long as its budget lasts: the queue head is about to, and
//! stealing is enabled again. If it joined the queue, it would halt, and each turn of a head would
//! send all running waiters to sleep.
//!
//! A newcomer that can't yield joins the queue early if the queue head needs its processor: the
//! head was kicked longer ago than a wake-up takes and is not back, and its tenure is over, it has
//! disabled stealing, or the count is half full, so that the head should carry. Without this, two
//! virtual CPUs that used up the count both spun until their budgets were spent, and the head of
//! the queue waited for their processors. An early kick alone is no reason: releases kick the head
//! whenever no newcomer spins, and to halt each time would cost more than the few critical
//! sections in between are worth. (When it was a reason, sections and pauses of 1 µs on 4, 8 and
//! 32 vCPUs had 0.53, 0.49 and 0.51 of the throughput of 2, and now 0.78, 0.71 and 0.67.)
//!
//! For the same reason a CPU that can yield makes way, once, if its first look finds a free lock
//! whose queue head was kicked longer ago than a wake-up takes. Linux puts a thread that it wakes
//! on the run queue of some processor and lets whatever runs there finish its slice. That may be
//! the CPU that takes the lock again and again: with critical sections of 4 to 10 µs the head came
//! back 250 to 430 µs after its kick, and with the yield after 15 to 49 µs (2 processors, Linux
//! 6.18). The lock is free meanwhile, so whatever runs instead may take it.
//!
//! How often a newcomer looks and yields, and what its time away costs it (`yields.rs`), depend on
//! how soon CPUs come back to a lock that they have released, and on what a hand-over would cost
//! (`gap.rs`, `transfer.rs`, `policy.rs`). So a newcomer that takes a lock without a queue has the
//! gap after that acquisition timed now and then, and one that waits times a look.
//!
//! While there is a queue, one newcomer sets `SPINNER`. Releases then leave a halted queue head
//! alone, because a running CPU will take the lock (golang/go#68578 does likewise). That newcomer
//! is responsible for the queue head: when the tenure is over, it kicks the head. So the kick costs
//! no holder's time. The newcomer may lose its processor, though, mostly to the lock holder: it
//! yields, and Linux then lets the other thread run for a whole slice. So releases read the head's
//! time now and then ([`policy::reads_tenure`]) and kick a head that is due themselves.
//!
//! # A steal that clears `HALTED`
//!
//! `HALTED` makes each release look for the queue head. Once the head has been kicked, looking is
//! in vain until it has a processor, so the steal that finds it kicked clears the bit (I6). The
//! stealing CPU then holds the lock, and looks once more:
//!
//! ```text
//!   steal                                    queue head
//!   look: kicked, not back
//!                                            HEAD
//!                                            HEAD_HALTED
//!   (t,s,0,1,n,0) -> (t,s,0,0,n+1,1) A       CAS (..,0,.,1) -> (..,1,.,1)     B
//!   look: HEAD_HALTED? kick
//! ```
//!
//! A and B change one word. If B comes first, A acquires it and the second look sees `HEAD_HALTED`.
//! If A comes first, the bit that B sets stays and the next release kicks.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::transfer::Looks;
use super::yields::Yields;
use super::{NAP_NS, Order, QueueLock, gap, kick, policy};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::queue::LockWord;
use crate::slot::Traced;
use crate::spin::Spin;
use crate::waiters;

/// How long a CPU without a queue node spins before it naps between two attempts.
const SPIN_WITHOUT_NODE_NS: u64 = 2_000;

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Spins for the lock outside the queue. Returns whether it took the lock.
    pub(super) fn spin_as_newcomer(&self, deadline_ns: Option<u64>) -> bool {
        let costs = P::costs();
        let mut spin = Spin::new(policy::newcomer_spins_ns(costs, P::YIELDS));
        let gap = gap::end::<P>(self.key());
        let timings = waiters::timings::<P>(self.key());
        let comes_back = policy::comes_straight_back(timings);
        let mut looks = Looks::new(gap.watch);
        let interval = policy::interval(costs, comes_back);
        // Unless holders come straight back, waiters look all the time.
        let mut notes = !comes_back;
        let mut announced = false;
        let mut has_kicked = false;
        let mut traced = None;
        let out_ns = policy::stays_out_ns(costs, timings, deadline_ns.is_some());
        let mut yields = Yields::new(costs, gap.watch, comes_back, out_ns);
        loop {
            let seen = looks.look::<P>(timings, || self.look());
            if let Some(new) = gap.taken(seen) {
                let new = gap.marked(if announced { new.without_spinner() } else { new });
                // ORDERING: Acquire, O1. (t,s,0,h,n,0) -> (t,s,0,h,n+1,1), or without a queue
                // (0 or TIMED,s,..,n,0) -> (0 or TIMED,s,0,0,0,1), or in another CPU's gap
                // (TIMED,s,0,0,n+1,1). A CPU that set `s` clears it.
                if self.word.compare_exchange(seen.bits(), new.bits(), Acquire, Relaxed).is_ok() {
                    return true;
                }
                looks.begin_again();
                continue;
            }
            if notes && seen.is_locked() {
                // A look has fallen into a critical section. (Into empty ones few do.)
                P::Release::note_wait(&self.word);
                notes = false;
            }
            yields.charge(&mut spin, seen);
            if !announced && seen.has_queue() && !seen.has_spinner() {
                traced
                    .get_or_insert_with(|| Traced::<P>::newcomer(&raw const self.word, Self::CARE));
                // (t,0,d,h,n,l) -> (t,1,d,h,n,l)
                announced = self.swap(seen, seen.with_spinner());
                looks.begin_again();
            }
            let late = || deadline_ns.is_some_and(|at| P::now_ns() >= at);
            let goes_on = !(spin.has_looked() && self.does_head_need_processor(seen))
                && spin.pause_times::<P>(interval)
                && !late();
            if !goes_on {
                return announced && self.take_or_withdraw();
            }
            if spin.has_looked() {
                // Once: a head that halts again because the lock is held gains nothing by it.
                if announced && !has_kicked {
                    has_kicked = self.kick_due_head(seen);
                }
                yields.yield_if_due::<P, C>(&mut spin, seen, announced);
            }
        }
    }

    /// Clears `SPINNER`, which this CPU has set: `(t,1,d,h,n,l) -> (t,0,d,h,n,l)`. If the lock is
    /// free, takes it in the same access: releases have relied on this CPU (I4). Returns whether it
    /// did.
    fn take_or_withdraw(&self) -> bool {
        let mut seen = self.look();
        loop {
            let taken = seen.taken_by_newcomer();
            let new = taken.unwrap_or(seen).without_spinner();
            // ORDERING: Acquire, O1. (t,1,0,h,n,0) -> (t,0,0,h,n+1,1), or as above.
            match self.word.compare_exchange(seen.bits(), new.bits(), Acquire, Relaxed) {
                Ok(_) => return taken.is_some(),
                Err(now) => seen = LockWord::new(now),
            }
        }
    }

    /// Whether the queue head needs a processor, and soon, while this CPU, which can't yield, spins
    /// on one.
    fn does_head_need_processor(&self, seen: LockWord) -> bool {
        let counts = seen.is_stealing_disabled() || seen.can_carry();
        !P::YIELDS
            && seen.has_queue()
            && kick::is_head_starved::<P>(self.key())
            && (counts || kick::is_head_due::<P>(self.key()))
    }

    /// Yields the processor if the lock is free and its queue head, which this CPU is about to
    /// pass, has been kicked and does not run: it may wait for this very processor.
    #[cold]
    #[inline(never)]
    pub(super) fn make_way_for_head(&self, seen: LockWord) {
        let passes = seen.taken_by_newcomer().is_some() && P::costs().spins;
        if passes && kick::is_head_starved::<P>(self.key()) {
            C::count(Event::PvYield);
            P::yield_now();
        }
    }

    /// Kicks a halted queue head whose tenure is over. Returns whether it did.
    fn kick_due_head(&self, seen: LockWord) -> bool {
        let kicks = seen.is_head_halted() && kick::is_head_due::<P>(self.key());
        if kicks {
            kick::kick_head::<P, C>(self.key());
        }
        kicks
    }

    /// `(t,s,0,1,n,0) -> (t,s,0,0,n+1,1)` if the queue head has been kicked, else
    /// `(t,s,0,1,n,0) -> (t,s,0,1,n+1,1)`: takes the lock past a halted head that can be passed.
    pub(super) fn take_past_halted(&self, seen: LockWord) -> bool {
        let Some(new) = seen.taken_by_newcomer() else { return false };
        let kicked = kick::is_head_kicked::<P>(self.key());
        let new = if kicked { new.without_halted() } else { new };
        // ORDERING: Acquire, O1 and O3.
        if self.word.compare_exchange(seen.bits(), new.bits(), Acquire, Relaxed).is_err() {
            return false;
        }
        if kicked {
            // The head may have come back since the first look and halted again; its bit is then
            // gone (I6).
            kick::kick_found::<P, C>(self.key());
        }
        true
    }

    fn swap(&self, seen: LockWord, new: LockWord) -> bool {
        self.word.compare_exchange(seen.bits(), new.bits(), Relaxed, Relaxed).is_ok()
    }

    /// Waits for the lock without a node (F7), outside the queue: keeps trying, spinning at first
    /// and then napping between attempts. Returns whether it took the lock.
    pub(super) fn wait_without_node(&self, deadline_ns: Option<u64>) -> bool {
        let mut spin = Spin::new(SPIN_WITHOUT_NODE_NS);
        loop {
            if self.try_take(self.look()) {
                return true;
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
            if !spin.pause::<P>() {
                P::nap(NAP_NS);
            }
        }
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use core::ptr;
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::platform::{Costs, Threads};
    use crate::raw::queue::one_cpu::one_cpu;
    use crate::raw::queue::order::Unfair;
    use crate::raw::word::queue::rmw;
    use crate::slot::{NodeId, Slot, state};
    use crate::{RawLock, waiters};

    crate::lock_class!(Watched);

    static LOCK: QueueLock<Threads, Unfair, Watched> = QueueLock::new();

    /// The newcomer that set `SPINNER` has no processor. The test only has the bit; the steals are
    /// its own.
    #[test]
    fn a_release_kicks_a_due_head_that_no_newcomer_watches() {
        let spinner = LockWord::new(0).with_spinner().bits();
        let nap = || thread::sleep(Duration::from_micros(50));
        let kicks = || Watched::counters().get(Event::PvKickUnlock);
        // SAFETY: each caller holds the lock.
        let unlock = || unsafe { LOCK.unlock() };
        LOCK.lock();
        let head = thread::spawn(move || {
            LOCK.lock();
            unlock();
        });
        while !LOCK.look().is_head_halted() {
            nap();
        }
        LOCK.word.fetch_or(spinner, Relaxed);
        for section in 1.. {
            unlock();
            // If this thread joined the queue and halted, it would wait for a newcomer's kick.
            while !LOCK.try_lock() {
                nap();
            }
            if kicks() > 0 {
                break;
            }
            assert!(section < 64, "the head stays halted");
            nap();
        }
        LOCK.word.fetch_and(!spinner, Relaxed);
        unlock();
        head.join().unwrap();
    }

    #[test]
    fn a_newcomer_notes_a_lock_that_it_finds_held_unless_holders_come_straight_back() {
        type Notes = <Threads as Platform>::Release;
        static NOTED: QueueLock<Threads, Unfair> = QueueLock::new();
        let timings = waiters::timings::<Threads>(NOTED.key());
        let notes = |gap_ns, seen: LockWord| {
            (0..100).for_each(|_| timings.note_gap(gap_ns));
            (0..100).for_each(|_| Notes::count_noted());
            NOTED.word.store(seen.bits(), Relaxed);
            let took = NOTED.spin_as_newcomer(Some(0));
            (took, Notes::is_noted(&NOTED.word))
        };
        let free = LockWord::new(0);
        let are_there = Threads::has_restartable_sequences() && !cfg!(overlock_no_notes);
        let held = free.taken_by_newcomer().unwrap();
        let strict = free.joined_by(NodeId::decode(4).unwrap(), true).with_spinner();
        assert_eq!(notes(50, held), (false, false));
        assert_eq!(notes(2_000, held), (false, are_there));
        assert_eq!(notes(2_000, free), (true, false));
        assert_eq!(notes(2_000, strict), (false, false), "free, but no newcomer may take it");
    }

    one_cpu!(Virtual, VIRTUAL_NS, None::<fn()>);

    crate::lock_class!(Giving);
    one_cpu!(MakesWay, MAKES_WAY_NS, Some(lose_processor as fn()), {
        Costs::DEFAULT.with_spins(!SIGNALLED.load(Relaxed))
    });

    static PASSED: QueueLock<MakesWay, Unfair, Giving> = QueueLock::new();
    /// Whether the thread has just been signalled.
    static SIGNALLED: AtomicBool = AtomicBool::new(false);
    /// The queue head that runs when the CPU yields, or zero.
    static RUNS: AtomicU32 = AtomicU32::new(0);

    fn lose_processor() {
        if let Some(head) = NodeId::decode(RUNS.load(Relaxed)) {
            head.node::<MakesWay>().state.store(state::HEAD, Relaxed);
            waiters::remove::<MakesWay>(PASSED.key(), head);
        }
    }

    #[test]
    fn a_cpu_makes_way_once_for_a_head_that_it_would_pass_and_that_needs_a_processor() {
        let head = Slot::<MakesWay>::enter().unwrap();
        let node = head.node();
        let yields = |word: LockWord, state, kicked_for_ns, runs| {
            PASSED.word.store(word.bits(), Relaxed);
            RUNS.store(runs, Relaxed);
            assert!(waiters::insert::<MakesWay>(PASSED.key(), head.id()));
            node.kicked.store(kick::stamp::<MakesWay>(), Relaxed);
            MAKES_WAY_NS.fetch_add(kicked_for_ns, Relaxed);
            node.state.store(state, Relaxed);
            let before = Giving::counters().get(Event::PvYield);
            PASSED.make_way();
            waiters::remove::<MakesWay>(PASSED.key(), head.id());
            Giving::counters().get(Event::PvYield) - before
        };
        let free = LockWord::new(0).joined_by(head.id(), false);
        let late = 2 * MakesWay::costs().wake_ns;
        for runs in [head.id().code(), 0] {
            assert_eq!(yields(free, state::KICKED, late, runs), 1);
        }
        assert_eq!(yields(free, state::KICKED, 0, 0), 0, "it may be on its way");
        assert_eq!(yields(free, state::HEAD_HALTED, late, 0), 0, "a release kicks it");
        assert_eq!(yields(free, state::HEAD, late, 0), 0, "it has a processor");
        let held = free.taken_by_newcomer().unwrap();
        assert_eq!(yields(held, state::KICKED, late, 0), 0, "this CPU can't pass it");
        let strict = LockWord::new(free.bits() | rmw::DISABLE_STEALING);
        assert_eq!(yields(strict, state::KICKED, late, 0), 0, "nor now");

        PASSED.word.store(free.bits(), Relaxed);
        assert!(waiters::insert::<MakesWay>(PASSED.key(), head.id()));
        node.state.store(state::KICKED, Relaxed);
        let before = Giving::counters().get(Event::PvYield);
        assert!(PASSED.lock_slow(None));
        assert_eq!(Giving::counters().get(Event::PvYield) - before, 1, "by itself");
        waiters::remove::<MakesWay>(PASSED.key(), head.id());

        SIGNALLED.store(true, Relaxed);
        assert_eq!(yields(free, state::KICKED, late, 0), 0, "it should not yield");
    }

    crate::lock_class!(Pacing);
    one_cpu!(Paced, PACED_NS, Some(be_away_briefly as fn()));

    const BRIEFLY_NS: u64 = 400;

    fn be_away_briefly() {
        PACED_NS.fetch_add(BRIEFLY_NS, Relaxed);
    }

    #[test]
    fn a_newcomer_spins_before_it_yields_unless_holders_come_straight_back() {
        static LOCKS: [QueueLock<Paced, Unfair, Pacing>; 64] = [const { QueueLock::new() }; 64];
        let timings_of = |lock: &QueueLock<Paced, Unfair, _>| waiters::timings::<Paced>(lock.key());
        let held = &LOCKS[0];
        let timings = timings_of(held);
        timings.note_transfer(70);
        held.word.store(LockWord::new(0).taken_by_newcomer().unwrap().bits(), Relaxed);
        let yields = || {
            let before = Pacing::counters().get(Event::PvYield);
            assert!(!held.spin_as_newcomer(None));
            Pacing::counters().get(Event::PvYield) - before
        };
        let yields_after = |gap_ns| {
            (0..100).for_each(|_| timings.note_gap(gap_ns));
            yields()
        };
        let costs = Paced::costs();
        let budget_ns = policy::newcomer_spins_ns(costs, true);
        let (soon, late) = (yields_after(50), yields_after(2_000));
        // A pause takes 10 ns, and the first look at the clock begins the budget.
        let look_ns = u64::from(costs.pauses_per_look) * 10;
        let many = 1 + budget_ns / (look_ns + policy::charged_ns(BRIEFLY_NS, u32::MAX));
        assert!(soon.abs_diff(many) <= costs.wake_ns / (look_ns + BRIEFLY_NS), "{soon}, {many}");
        // The CPU has just yielded in the wait before.
        let spins = policy::newcomer_spins_ns(costs, false) / look_ns;
        assert!((many - late).abs_diff(spins) <= 1, "{many}, {late}");
        PACED_NS.fetch_add(budget_ns, Relaxed);
        assert_eq!(yields_after(2_000), many);
        let soon_again = yields_after(policy::stands_free_ns(timings) as u32 - 20);
        assert_eq!(soon_again, soon);

        let other = LOCKS.iter().map(timings_of).find(|&other| !ptr::eq(other, timings)).unwrap();
        (0..100).for_each(|_| other.note_gap(2_000));
        assert_eq!(yields(), soon, "another lock's gaps do not count");
    }

    one_cpu!(Watching, WATCHING_NS, None::<fn()>, {
        others_take_the_lock();
        Costs::DEFAULT
    });

    static WATCHED: QueueLock<Watching, Unfair> = QueueLock::new();
    static OTHERS_RUN: AtomicBool = AtomicBool::new(false);

    fn others_take_the_lock() {
        if OTHERS_RUN.load(Relaxed) {
            let taken = WATCHED.look().released(false).taken_by_newcomer().unwrap();
            WATCHED.word.store(taken.bits(), Relaxed);
        }
    }

    #[test]
    fn a_newcomer_times_a_look_only_if_another_cpu_has_written_the_word() {
        let timings = waiters::timings::<Watching>(WATCHED.key());
        let queue = LockWord::new(0).joined_by(NodeId::decode(4).unwrap(), false);
        let transfer_ns = |others_run| {
            WATCHED.word.store(queue.taken_by_newcomer().unwrap().bits(), Relaxed);
            OTHERS_RUN.store(others_run, Relaxed);
            assert!(!WATCHED.spin_as_newcomer(None));
            timings.transfer_ns()
        };
        let none = timings.transfer_ns();
        assert_eq!(transfer_ns(false), none, "it has set SPINNER itself");
        assert_eq!(transfer_ns(true), 1, "the clock does not move while it looks");
    }

    #[test]
    fn a_newcomer_that_can_not_yield_leaves_its_processor_to_a_head_that_waits_for_one() {
        static HELD: QueueLock<Virtual, Unfair> = QueueLock::new();
        let head = Slot::<Virtual>::enter().unwrap();
        let node = head.node();
        let held = LockWord::new(0).joined_by(head.id(), false).taken_by_newcomer().unwrap();
        let strict = LockWord::new(held.bits() | rmw::DISABLE_STEALING);
        let pass = |seen: LockWord| seen.released(false).taken_by_newcomer().unwrap();
        let passes = core::iter::successors(Some(held), |&seen| Some(pass(seen)));
        let passed = passes.clone().find(|seen| seen.can_carry()).unwrap();
        let not_yet = passes.take_while(|seen| !seen.can_carry()).last().unwrap();
        assert!(waiters::insert::<Virtual>(HELD.key(), head.id()));
        let spins_ns = |held: LockWord, state, kicked_for_ns| {
            HELD.word.store(held.bits(), Relaxed);
            node.kicked.store(kick::stamp::<Virtual>(), Relaxed);
            node.since.store(kick::stamp::<Virtual>(), Relaxed);
            VIRTUAL_NS.fetch_add(kicked_for_ns, Relaxed);
            node.state.store(state, Relaxed);
            let before = Virtual::now_ns();
            assert!(!HELD.spin_as_newcomer(None));
            Virtual::now_ns() - before
        };
        let (wakes, late) = (0, 2 * Virtual::costs().wake_ns);
        let is_over = |&ns: &u64| policy::disables_stealing(Virtual::costs(), ns);
        let due = 1_024 + (0..).step_by(1_024).find(is_over).unwrap();
        let budget = policy::newcomer_spins_ns(Virtual::costs(), false);
        assert!(spins_ns(strict, state::KICKED, wakes) >= budget);
        assert!(spins_ns(strict, state::HEAD_HALTED, due) >= budget, "a release kicks it");
        assert!(spins_ns(strict, state::HEAD, due) >= budget, "it has a processor");
        assert!(spins_ns(not_yet, state::KICKED, late) >= budget, "it can be passed");
        assert_eq!(spins_ns(held, state::KICKED, due), 0, "its tenure is over");
        assert_eq!(spins_ns(passed, state::KICKED, late), 0, "it has to carry");
        assert_eq!(spins_ns(strict, state::KICKED, late), 0, "it can't be passed");
        waiters::remove::<Virtual>(HELD.key(), head.id());
    }
}
