//! Joining the queue: take a node, swing the tail, link behind the predecessor.
//!
//! ```text
//!   newcomer                              predecessor, when it leaves
//!   CAS word: (p,..) -> (me,..)           CAS word: it is not the tail
//!   swap p.next: 0 -> me                  swap p.next: -> GONE
//!   found 0:    linked, wait              found me: the successor, promote it
//!   found GONE: no predecessor, head      found 0:  leave, and leave the node behind
//! ```
//!
//! One of the two swaps finds what the other left, and neither CPU waits (Q4).

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::kick::stamp;
use super::order::Order;
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::entered::Entered;
use crate::platform::Platform;
use crate::raw::word::queue::{LockWord, update};
use crate::slot::{Node, NodeState, step};
use crate::waiters::Key;

/// In a node's `next`: the waiter has left before its successor linked itself.
pub(super) const GONE: u32 = u32::MAX;

/// A place in the queue of a lock: this CPU's node, queued.
pub(super) struct Place<'a, P: Platform, O: Order, C: Class> {
    pub(super) word: &'a P::Word,
    pub(super) key: Key,
    pub(super) entered: Entered<P>,
    /// Whether the present holder, and every later one, has seen this queue. If so, no release
    /// misses what the queue head writes into the word (Q7).
    pub(super) is_seen: bool,
    /// Whether this waiter has already slept as the queue head, so that others may have passed it.
    pub(super) has_slept: bool,
    pub(super) class: PhantomData<(O, C)>,
}

/// The result of an attempt to join the queue.
#[must_use]
pub(super) enum Enqueued<'a, P: Platform, O: Order, C: Class> {
    /// The CPU took the lock, which it found free.
    Took,
    /// The CPU is the head of the queue.
    Head(Place<'a, P, O, C>),
    /// The CPU is in the queue, behind others; perhaps again, where it had given up.
    Behind(Place<'a, P, O, C>),
    /// The CPU has no free node (F7).
    NoNode,
}

impl<'a, P: Platform, O: Order, C: Class> Place<'a, P, O, C> {
    /// Joins the queue, unless the lock can be taken at once. A waiter that `has_parked` may have
    /// been woken in place of another, and leaves its mark.
    pub(super) fn enqueue(word: &'a P::Word, has_parked: bool) -> Enqueued<'a, P, O, C> {
        let entered = Entered::<P>::new();
        // A node that was left behind keeps its level from being free, usually the lowest. (If a
        // signal handler left it at a higher one, this CPU may get a second place.)
        if entered.as_ref().is_none_or(|entered| entered.level() > 0)
            && let Some(place) = Self::take_back(word)
        {
            return Enqueued::Behind(place);
        }
        let Some(entered) = entered else {
            C::count(Event::LockNoNode);
            return Enqueued::NoNode;
        };
        match entered.level() {
            0 => {}
            1 => C::count(Event::LockUseNode2),
            2 => C::count(Event::LockUseNode3),
            _ => C::count(Event::LockUseNode4),
        }
        let node = entered.node();
        node.state.store(NodeState::WAITING, Relaxed);
        node.next.store(0, Relaxed);
        entered.trace(word, Self::CARE);
        // ORDERING: AcqRel: Q-O1, and O1 if the lock is free.
        let joins = |seen: LockWord| {
            let takes = seen.taken_by_newcomer(has_parked);
            let new = takes.unwrap_or(seen.joined_by(entered.id(), Self::STRICT));
            Some(if has_parked { new.passed_on() } else { new.without_note() })
        };
        let Ok((before, now)) = update(word, AcqRel, joins) else { unreachable!() };
        if !now.ends_with(entered.id()) {
            C::count(Event::PvLockStealing);
            return Enqueued::Took;
        }
        let place = Self::new(word, entered);
        let is_behind = before.tail().is_some_and(|before| {
            let before = before.node::<P>();
            // ORDERING: AcqRel, Q-O2.
            let is_linked = before.next.swap(place.entered.id().code(), AcqRel) != GONE;
            if !is_linked {
                before.release();
            }
            is_linked
        });
        if !is_behind {
            node.state.store(NodeState::HEAD, Relaxed);
            node.since.store(stamp::<P>(), Relaxed);
        }
        place.entered.has_got_to(step::QUEUED);
        if is_behind { Enqueued::Behind(place) } else { Enqueued::Head(place) }
    }

    pub(super) fn new(word: &'a P::Word, entered: Entered<P>) -> Self {
        let key = Key::new(ptr::from_ref(word), 0);
        Self { word, key, entered, is_seen: false, has_slept: false, class: PhantomData }
    }

    /// Takes back the place that this CPU has given up in this queue, unless a promoter is skipping
    /// it.
    fn take_back(word: &'a P::Word) -> Option<Self> {
        let (id, seen) = Entered::<P>::left_in(word)?;
        let entered = Entered::<P>::again(id);
        entered.comes_again();
        // `GIVEN_UP` -> `WAITING`. The node's contents are as they were.
        let state = &entered.node().state;
        if state.compare_exchange(seen, NodeState::WAITING, Relaxed).is_err() {
            entered.leave_given_up();
            return None;
        }
        // A signal handler may have used the node since.
        entered.comes_again();
        entered.has_got_to(step::QUEUED);
        Some(Self::new(word, entered))
    }

    pub(super) fn node(&self) -> &'static Node<P::Word> {
        self.entered.node()
    }

    pub(super) fn look(&self) -> LockWord {
        LockWord::new(self.word.load(Relaxed))
    }
}
