// SPDX-License-Identifier: MIT OR Apache-2.0
//! Newcomers: CPUs that want the lock and have not joined the queue.
//!
//! A running newcomer takes a free lock past a queue whose head can be passed (a *steal*, counted
//! in the word). It spins for a moment and then joins the queue. While stealing is disabled it
//! can't take the lock, but it stays as long as its time lasts: the queue head is about to, and
//! stealing is enabled again.
//!
//! While there is a queue, one newcomer sets `SPINNER`. Releases then leave a halted queue head
//! alone, because a running CPU will take the lock (golang/go#68578 does likewise). That newcomer
//! is responsible for the queue head: when the tenure is over, it kicks the head. So the kick costs
//! no holder's time. The newcomer may lose its processor, though, so releases read the head's time
//! now and then ([`pace::reads_tenure`]) and kick a head that is due themselves.
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

use super::pace::Pace;
use super::{NAP_NS, Order, QueueLock, kick};
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::{LockWord, cas, update};
use crate::slot::Traced;

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Spins for the lock outside the queue. Returns whether it took the lock.
    pub(super) fn spin_as_newcomer(&self, deadline_ns: Option<u64>) -> bool {
        let mut pace = Pace::of_newcomer(P::costs());
        let (mut announced, mut has_kicked, mut traced) = (false, false, None);
        loop {
            let seen = self.look();
            if let Some(new) = seen.taken_by_newcomer() {
                let new = if announced { new.without_spinner() } else { new };
                // ORDERING: Acquire, O1. (0,s,0,0,0,0) -> (0,0,0,0,0,1), or with a queue
                // (t,s,0,h,n,0) -> (t,s,0,h,n+1,1). The CPU that set `s` clears it.
                if cas(&self.word, seen, new, Acquire).is_ok() {
                    return true;
                }
                continue;
            }
            if !announced && seen.has_queue() && !seen.has_spinner() {
                traced
                    .get_or_insert_with(|| Traced::<P>::newcomer(&raw const self.word, Self::CARE));
                // (t,0,d,h,n,l) -> (t,1,d,h,n,l)
                announced = cas(&self.word, seen, seen.with_spinner(), Relaxed).is_ok();
            }
            if !pace.goes_on::<P, C>() || deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                return announced && self.take_or_withdraw();
            }
            // Once: a head that halts again because the lock is held gains nothing by it.
            if announced && !has_kicked && pace.has_read_clock() {
                has_kicked = self.kick_due_head(seen);
            }
        }
    }

    /// Clears `SPINNER`, which this CPU has set: `(t,1,d,h,n,l) -> (t,0,d,h,n,l)`. If the lock is
    /// free, takes it in the same access: releases have relied on this CPU (I4). Returns whether it
    /// did.
    fn take_or_withdraw(&self) -> bool {
        let leaves =
            |seen: LockWord| Some(seen.taken_by_newcomer().unwrap_or(seen).without_spinner());
        // ORDERING: Acquire, O1. (t,1,0,h,n,0) -> (t,0,0,h,n+1,1), or as above.
        update(&self.word, Acquire, leaves)
            .is_ok_and(|(before, _)| before.taken_by_newcomer().is_some())
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
    #[cold]
    #[inline(never)]
    pub(super) fn take_past_halted(&self) -> bool {
        let seen = self.look();
        let Some(new) = seen.taken_by_newcomer() else { return false };
        let kicked = kick::is_head_kicked::<P>(self.key());
        let new = if kicked { new.without_halted() } else { new };
        // ORDERING: Acquire, O1 and O3.
        if cas(&self.word, seen, new, Acquire).is_err() {
            return false;
        }
        if kicked {
            // The head may have come back since the first look and halted again; its bit is then
            // gone (I6).
            kick::kick_found::<P, C>(self.key());
        }
        true
    }

    /// Waits for the lock without a node (F7), outside the queue: keeps trying, spinning at first
    /// and then napping between attempts. Returns whether it took the lock.
    pub(super) fn wait_without_node(&self, deadline_ns: Option<u64>) -> bool {
        let mut pace = Pace::of_newcomer(P::costs());
        loop {
            if self.try_take() {
                return true;
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
            if !pace.goes_on::<P, C>() {
                P::nap(NAP_NS);
            }
        }
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::RawLock;
    use crate::platform::Threads;
    use crate::raw::queue::order::Unfair;

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
}
