// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting in the queue behind others: the waiter halts until a predecessor that leaves promotes it
//! to queue head.
//!
//! # The race of halt and promotion
//!
//! Linux keeps "you are the head" (`locked`) and "I sleep" (`state`) in two words, so halt and
//! promotion are a store-buffering race (F1). S3 is about this race: on some machines the
//! promoter's failed `cmpxchg` orders nothing, and each side misses the other. Here both facts are
//! one word:
//!
//! ```text
//!    waiter                                promoter
//!    CAS state: WAITING -> HALTED          CAS state: WAITING -> HEAD
//!    ok: wait(state, HALTED)               ok: done, the waiter is awake
//!    failed: I am the head                 failed: the waiter halts; retry
//! ```
//!
//! One of the two CAS comes first in the word's modification order, and the other one fails. No
//! fence is needed on any machine.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::enqueue::Place;
use super::{Order, kick::passed_ns};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::rmw;
use crate::slot::state;
use crate::spin::Spin;
use crate::waiters;

impl<P: Platform, O: Order, C: Class> Place<'_, P, O, C> {
    /// Waits, halting, until promoted. Returns whether it was asleep at its promotion; `None` if it
    /// gave up at the deadline.
    pub(super) fn wait_for_promotion(&self, deadline_ns: Option<u64>) -> Option<bool> {
        let state = &self.node().state;
        let late = || deadline_ns.is_some_and(|at| P::now_ns() >= at);
        // Spins until its first look at the clock. Longer would help if every waiter had a CPU;
        // elsewhere it burns time that the holder needs.
        let mut spin = Spin::new(0);
        while state.load(Relaxed) == state::WAITING && spin.pause::<P>() {
            if !P::waits() && late() && self.abandon(state::WAITING) {
                return None;
            }
        }
        let mut event = Event::PvWaitNode;
        let mut seen = match state.compare_exchange(state::WAITING, state::HALTED, Relaxed, Relaxed)
        {
            Ok(_) => state::HALTED,
            Err(now) => now,
        };
        loop {
            match seen {
                state::HALTED => {
                    if late() && self.abandon(state::HALTED) {
                        return None;
                    }
                    C::count(event);
                    event = Event::PvWaitAgain;
                    P::wait(state, state::HALTED, deadline_ns);
                }
                state::HEAD_HALTED => {
                    P::wait(state, state::HEAD_HALTED, deadline_ns);
                    self.come_back();
                    return Some(true);
                }
                kicked if kicked == state::KICKED || state::is_kicking(kicked) => {
                    self.come_back();
                    return Some(true);
                }
                head => {
                    debug_assert_eq!(head, state::HEAD);
                    return Some(false);
                }
            }
            seen = state.load(Relaxed);
        }
    }

    /// Gives up a place that is not the head's. Returns false if it is in another state.
    pub(super) fn abandon(&self, from: u32) -> bool {
        let node = self.node();
        node.state.compare_exchange(from, node.abandoned(), Relaxed, Relaxed).is_ok()
    }

    /// `HEAD_HALTED`, `KICKING`, `KICKED` -> `HEAD`: removes this waiter from the table and its
    /// halt from the word (Q2).
    pub(super) fn come_back(&self) {
        // ORDERING: Acquire, Q-O6.
        let kicked = self.node().state.swap(state::HEAD, Acquire) != state::HEAD_HALTED;
        C::count(if kicked { Event::PvKickWake } else { Event::PvSpuriousWakeup });
        waiters::remove::<P>(self.key, self.entered.id());
        // (*,h,*,*) -> (*,0,*,*)
        self.word.fetch_and(rmw::HEAD_IS_BACK, Relaxed);
        if kicked {
            P::note_wake(|| passed_ns::<P>(&self.node().kicked));
        }
    }
}
