// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting in the queue until this waiter is its head.
//!
//! # Who is the head
//!
//! A waiter links itself behind its predecessor, unless that has left already:
//!
//! ```text
//!   waiter                                predecessor, when it leaves
//!   swap p.next: 0 -> me                  swap p.next: -> GONE
//!   found 0:    linked, wait              found me: the successor, promote it
//!   found GONE: no predecessor, head      found 0:  leave, and leave the node behind
//! ```
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
//!
//! # A reservation in vain
//!
//! A free lock that newcomers may not take is reserved for its queue head. The head may not come: a
//! collector has stopped its thread by a signal, a debugger or a freezer holds it. So a waiter
//! behind it wakes up now and then, and looks. If the lock is free and reserved, and still the same
//! a while later, it gives up its place and passes the head, which the word counts. (Between two
//! looks the lock may have been taken and reserved anew, with the same count. Then the waiter
//! passes a head that was about to come: once in that time, and no more.)

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::enqueue::Place;
use super::hand_off::GONE;
use super::kick::stamp;
use super::order::Order;
use super::pace::{self, Pace};
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::rmw;
use crate::slot::{NodeId, NodeState, step};
use crate::waiters;

/// How a wait behind others ended.
#[must_use]
pub(super) enum Waited<'a, P: Platform, O: Order, C: Class> {
    /// The waiter is the queue head.
    Head(Place<'a, P, O, C>),
    /// The deadline passed first. The place is given up.
    Late,
    /// The lock is reserved in vain, for this value. The place is given up.
    Reserved(u32),
}

impl<'a, P: Platform, O: Order, C: Class> Place<'a, P, O, C> {
    /// Waits until this place is the head of the queue.
    pub(super) fn wait_to_be_head(
        self,
        before: Option<NodeId>,
        deadline_ns: Option<u64>,
    ) -> Waited<'a, P, O, C> {
        if before.is_some_and(|before| self.link_behind(before)) {
            self.entered.has_got_to(step::QUEUED);
            return self.wait_behind(deadline_ns);
        }
        self.node().state.store(NodeState::HEAD, Relaxed);
        self.entered.has_got_to(step::QUEUED);
        self.node().since.store(stamp::<P>(), Relaxed);
        Waited::Head(self)
    }

    /// [`wait_to_be_head`](Self::wait_to_be_head), for a place behind others: waits, halting, until
    /// promoted, or until this waiter gives up.
    pub(super) fn wait_behind(mut self, deadline_ns: Option<u64>) -> Waited<'a, P, O, C> {
        let state = &self.node().state;
        let late = || deadline_ns.is_some_and(|at| P::now_ns() >= at);
        let mut pace = Pace::behind();
        while state.load(Relaxed) == NodeState::WAITING && pace.goes_on::<P, C>() {
            if !P::waits() && late() && self.abandon(NodeState::WAITING) {
                return self.given_up(Waited::Late);
            }
        }
        let mut event = Event::PvWaitNode;
        let mut reserved = Reserved::new::<P>();
        let halted = state.compare_exchange(NodeState::WAITING, NodeState::HALTED, Relaxed);
        let mut seen = halted.err().unwrap_or(NodeState::HALTED);
        while seen == NodeState::HALTED {
            if late() && self.abandon(NodeState::HALTED) {
                return self.given_up(Waited::Late);
            }
            C::count(event);
            event = Event::PvWaitAgain;
            let until_ns = [deadline_ns, reserved.at_ns].into_iter().flatten().min();
            state.wait::<P>(NodeState::HALTED, until_ns);
            seen = state.load(Relaxed);
            if seen == NodeState::HALTED
                && let Some(reservation) = reserved.in_vain::<P>(|| self.look().reservation())
                && self.abandon(NodeState::HALTED)
            {
                return self.given_up(Waited::Reserved(reservation));
            }
        }
        debug_assert_ne!(seen, NodeState::WAITING);
        if seen != NodeState::HEAD {
            // `HEAD_HALTED`, `KICKING`, `KICKED`. Only a holder promotes a waiter in its sleep, and
            // that holder has seen the queue.
            if seen == NodeState::HEAD_HALTED {
                state.wait::<P>(seen, deadline_ns);
            }
            self.come_back();
            self.has_slept = true;
            self.is_seen = true;
        }
        Waited::Head(self)
    }

    /// Leaves the place to be skipped, `ABANDONED`.
    fn given_up(self, waited: Waited<'a, P, O, C>) -> Waited<'a, P, O, C> {
        if matches!(waited, Waited::Late) {
            C::count(Event::LockTimeout);
        }
        self.entered.leave_abandoned();
        waited
    }

    /// Links this node behind its predecessor. Returns false if the predecessor has already left:
    /// then this place is the head (Q4).
    fn link_behind(&self, before: NodeId) -> bool {
        let before = before.node::<P>();
        // ORDERING: AcqRel, Q-O2.
        if before.next.swap(self.entered.id().code(), AcqRel) != GONE {
            return true;
        }
        before.release();
        false
    }

    /// Gives up a place that is not the head's. Returns false if it is in another state.
    pub(super) fn abandon(&self, from: NodeState) -> bool {
        let node = self.node();
        node.state.compare_exchange(from, node.abandoned(), Relaxed).is_ok()
    }

    /// `HEAD_HALTED`, `KICKING`, `KICKED` -> `HEAD`: removes this waiter from the table and its
    /// halt from the word (Q2).
    pub(super) fn come_back(&self) {
        // ORDERING: Acquire, Q-O6.
        let kicked = self.node().state.swap(NodeState::HEAD, Acquire) != NodeState::HEAD_HALTED;
        C::count(if kicked { Event::PvKickWake } else { Event::PvSpuriousWakeup });
        waiters::remove::<P>(self.key, self.entered.id());
        // (t,d,h,n,l) -> (t,d,0,n,l)
        self.word.fetch_and(rmw::HEAD_IS_BACK, Relaxed);
    }
}

/// What a halted waiter knows of the reservation of its lock.
struct Reserved {
    /// When it looks again, if ever.
    at_ns: Option<u64>,
    looks: u32,
    /// The reservation at the last look.
    last: Option<u32>,
}

impl Reserved {
    fn new<P: Platform>() -> Self {
        let mut new = Self { at_ns: None, looks: 0, last: None };
        new.wait_for::<P>();
        new
    }

    fn wait_for<P: Platform>(&mut self) {
        let looks_after_ns = pace::looks_after_ns(P::costs(), self.looks);
        self.at_ns =
            (looks_after_ns < u64::MAX).then(|| P::now_ns().saturating_add(looks_after_ns));
    }

    /// The reservation, if it was the same at the last look, and it is time for another.
    fn in_vain<P: Platform>(&mut self, look: impl FnOnce() -> Option<u32>) -> Option<u32> {
        if self.at_ns.is_none_or(|at_ns| P::now_ns() < at_ns) {
            return None;
        }
        let seen = look();
        let same = seen.filter(|_| seen == self.last);
        self.last = seen;
        self.looks = if seen.is_some() { 0 } else { self.looks + 1 };
        self.wait_for::<P>();
        same
    }
}
