// SPDX-License-Identifier: MIT OR Apache-2.0
//! Newcomers: CPUs that want the lock and have not joined the queue.
//!
//! A running newcomer takes a free lock past a queue whose head can be passed (a *steal*, counted
//! in the word). It spins for a moment and then joins the queue. While stealing is disabled it
//! can't take the lock, but it stays as long as its time lasts: the queue head is about to, and
//! stealing is enabled again.
//!
//! # A steal that clears `HALTED`
//!
//! `HALTED` makes each release look for the queue head. Once the head has been kicked, looking is
//! in vain until it has a processor, so the steal that finds it kicked clears the bit (I4). The
//! stealing CPU then holds the lock, and looks once more:
//!
//! ```text
//!   steal                                    queue head
//!   look: kicked, not back
//!                                            HEAD
//!                                            HEAD_HALTED
//!   (t,0,1,n,0) -> (t,0,0,n+1,1) A       CAS (..,0,.,1) -> (..,1,.,1) B
//!   look: HEAD_HALTED? kick
//! ```
//!
//! A and B change one word. If B comes first, A acquires it and the second look sees `HEAD_HALTED`.
//! If A comes first, the bit that B sets stays and the next release kicks.

use core::ptr;
use core::sync::atomic::Ordering::Acquire;

use super::pace::Pace;
use super::rent::has;
use super::{Order, QueueLock, kick};
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::cas;
use crate::waiters::{Key, NAP_NS};

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// Spins for the lock outside the queue. Returns whether it took the lock.
    pub(super) fn spin_as_newcomer(&self, deadline_ns: Option<u64>) -> bool {
        let mut pace = Pace::of_newcomer(P::costs(), self.look().has_queue());
        loop {
            // (0,0,0,0,0) -> (0,0,0,0,1), or past a queue (t,0,h,n,0) -> (t,0,h,n+1,1)
            if self.try_take() {
                return Self::has_stolen();
            }
            if !pace.goes_on::<P, C>() || deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                return false;
            }
        }
    }

    /// `(t,0,1,n,0) -> (t,0,0,n+1,1)` if the queue head has been kicked, else
    /// `(t,0,1,n,0) -> (t,0,1,n+1,1)`: takes the lock past a halted head that can be passed.
    #[cold]
    #[inline(never)]
    pub(super) fn take_past_halted(&self) -> bool {
        let seen = self.look();
        let Some(new) = seen.taken_by_newcomer().filter(|_| seen.is_head_halted()) else {
            return false;
        };
        let key = Key::new(ptr::from_ref(&self.word), 0);
        let kicked =
            const { has("the steal that clears HALTED") } && kick::is_head_kicked::<P>(key);
        let new = if kicked { new.without_halted(false) } else { new };
        // ORDERING: Acquire, O1 and O3.
        if cas(&self.word, seen, new, Acquire).is_err() {
            return false;
        }
        if kicked {
            // The head may have come back since the first look and halted again; its bit is then
            // gone (I4).
            kick::kick_found::<P, C>(key);
        }
        Self::has_stolen()
    }

    /// Waits for the lock without a node (F7), outside the queue: spins, and naps in between.
    /// Returns whether it took the lock.
    pub(super) fn wait_without_node(&self, deadline_ns: Option<u64>) -> bool {
        while !self.spin_as_newcomer(deadline_ns) {
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
            P::nap(NAP_NS);
        }
        true
    }
}
