//! Waiting in the queue until this waiter is its head.
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
//!    CAS state: WAITING -> HALTED_BEHIND   CAS state: WAITING -> HEAD
//!    ok: wait(state, HALTED_BEHIND)        ok: done, the waiter is awake
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
//! a while later, it gives up its place and passes the head. (Between two looks the lock may have
//! been taken and reserved anew, with the same count. Then the waiter passes a head that was about
//! to come.) The intervals double, so that a long sleep costs next to nothing.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::enqueue::Place;
use super::order::Order;
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::rmw;
use crate::slot::NodeState;
use crate::spin::{Spin, looks_after_ns};
use crate::waiters;

/// How a wait outside the queue ended.
#[must_use]
pub(super) enum Outside {
    /// With the lock.
    Took,
    /// The deadline passed first.
    Late,
    /// It has lasted for long enough to join the queue.
    Waited,
}

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
    /// Waits, halting, until this place is the head of the queue, or until this waiter gives up.
    pub(super) fn wait_behind(mut self, deadline_ns: Option<u64>) -> Waited<'a, P, O, C> {
        let state = &self.node().state;
        let late = || deadline_ns.is_some_and(|at| P::now_ns() >= at);
        let mut spin = Spin::behind(P::costs());
        while state.load(Relaxed) == NodeState::WAITING && spin.goes_on::<P>() {
            if !P::waits() && late() && self.mark_given_up(NodeState::WAITING) {
                return self.given_up(Waited::Late);
            }
        }
        let mut event = Event::PvWaitNode;
        let mut reserved = Reserved::default();
        let _ = reserved.look::<P>(None);
        let halted = state.compare_exchange(NodeState::WAITING, NodeState::HALTED_BEHIND, Relaxed);
        let mut seen = halted.err().unwrap_or(NodeState::HALTED_BEHIND);
        while seen == NodeState::HALTED_BEHIND {
            if late() && self.mark_given_up(NodeState::HALTED_BEHIND) {
                return self.given_up(Waited::Late);
            }
            C::count(event);
            event = Event::PvWaitAgain;
            let until_ns = deadline_ns.unwrap_or(u64::MAX).min(reserved.at_ns);
            state.wait::<P>(NodeState::HALTED_BEHIND, (until_ns < u64::MAX).then_some(until_ns));
            seen = state.load(Relaxed);
            if seen == NodeState::HALTED_BEHIND
                && P::now_ns() >= reserved.at_ns
                && let Some(reservation) = reserved.look::<P>(self.look().reservation())
                && self.mark_given_up(NodeState::HALTED_BEHIND)
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

    /// Leaves the place to be skipped, `GIVEN_UP`.
    fn given_up(self, waited: Waited<'a, P, O, C>) -> Waited<'a, P, O, C> {
        if matches!(waited, Waited::Late) {
            C::count(Event::LockTimeout);
        }
        self.entered.leave_given_up();
        waited
    }

    /// Gives up a place that is not the head's. Returns false if it is in another state.
    pub(super) fn mark_given_up(&self, from: NodeState) -> bool {
        let node = self.node();
        node.state.compare_exchange(from, node.given_up(), Relaxed).is_ok()
    }

    /// `HEAD_HALTED`, `KICKING`, `KICKED` -> `HEAD`: removes this waiter from the table and its
    /// halt from the word (Q2).
    pub(super) fn come_back(&self) {
        // ORDERING: Acquire, Q-O6.
        match self.node().state.swap(NodeState::HEAD, Acquire) {
            NodeState::HEAD_HALTED => C::count(Event::PvSpuriousWakeup),
            // A signal handler gives up for a head that was awake.
            NodeState::HEAD => {}
            _ => C::count(Event::PvKickWake),
        }
        waiters::remove::<P>(self.key, self.entered.id());
        // (t,d,h,n,l) -> (t,d,0,n,l)
        self.word.fetch_and(rmw::HEAD_IS_BACK, Relaxed);
    }
}

/// What a halted waiter knows of the reservation of its lock.
#[derive(Default)]
struct Reserved {
    /// The reservation at the last look.
    last: Option<u32>,
    /// How many looks in a row have found none.
    none: u32,
    /// When it looks again: `u64::MAX` for never.
    at_ns: u64,
}

impl Reserved {
    /// Looks. Returns the reservation if it was the same at the last look.
    fn look<P: Platform>(&mut self, seen: Option<u32>) -> Option<u32> {
        let same = seen.filter(|_| seen == self.last);
        self.last = seen;
        self.none = if seen.is_some() { 0 } else { self.none + 1 };
        let after_ns = looks_after_ns(P::costs(), self.none);
        self.at_ns = P::now_ns().saturating_add(after_ns);
        same
    }
}
