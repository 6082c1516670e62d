//! Queue nodes, and the meaning of their states.

use core::sync::atomic::Ordering::{self, Relaxed, Release};

use super::id::Cpu;
use super::trace::Trace;
use crate::atomic::{Atomic, ConstAtomic};

/// A place in a queue.
///
/// The lock that uses the node defines what its words mean; see `queue.rs` and `ticket.rs`.
#[derive(Debug)]
pub(crate) struct Node<W> {
    /// How far the waiter has got: the one word on which it and its waker race.
    pub(crate) state: State<W>,
    /// The code of the next node in the queue, or zero.
    pub(crate) next: W,
    /// When the waiter became the queue head: the low half of [`Platform::now_ns`](crate::platform::Platform::now_ns) in units of
    /// 1,024 ns.
    pub(crate) since: W,
    /// When the waiter was kicked, in the same format.
    pub(crate) kicked: W,
    pub(crate) trace: Trace,
}

/// How far a waiter has got: the values of all locks, distinguished by their lower halves, and in
/// the upper half what some of them say besides.
///
/// A node serves one wait after another, for locks of every kind, and a late kick for an earlier
/// wait may reach it during a later one. A kick changes a state only from the value that it
/// expects. Since no two kinds of wait share a value, it can't change the state of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeState(u32);

const SAYS_SHIFT: u32 = 16;
const KIND: u32 = (1 << SAYS_SHIFT) - 1;

impl NodeState {
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// `queue.rs`: in the queue, awake.
    pub(crate) const WAITING: Self = Self(0);
    /// `queue.rs`: in the queue, halted or about to.
    pub(crate) const HALTED_BEHIND: Self = Self(1);
    /// `queue.rs`: the queue head, awake.
    pub(crate) const HEAD: Self = Self(2);
    /// `queue.rs`: the queue head, halted or about to, in the table.
    pub(crate) const HEAD_HALTED: Self = Self(3);
    /// `queue.rs`: the queue head, in the table, kicked.
    pub(crate) const KICKED: Self = Self(4);
    const GIVEN_UP: Self = Self(5);
    const KICKING: Self = Self(6);
    /// `ticket.rs`: awake.
    pub(crate) const TICKET_RUNNING: Self = Self(7);
    /// `ticket.rs`: halted, or about to.
    pub(crate) const TICKET_HALTED: Self = Self(8);
    /// `park.rs`: awake.
    pub(crate) const UNPARKED: Self = Self(9);
    const PARKED: Self = Self(10);
    const TICKET_GIVEN_UP: Self = Self(11);
    const TICKET_IN_HAND: Self = Self(13);
    const TICKET_DUE: Self = Self(14);
    /// `queue.rs`: gave up, and is being skipped: its own CPU can't take the place back any more.
    pub(crate) const SKIPPED: Self = Self(12);
    /// A node that its CPU left behind and that no CPU can reach any more.
    pub(crate) const RELEASED: Self = Self(u32::MAX);

    const fn saying(self, says: u32) -> Self {
        Self(self.0 | says << SAYS_SHIFT)
    }

    const fn is(self, kind: Self) -> bool {
        self.0 & KIND == kind.0
    }

    /// `queue.rs`: the queue head, in the table, about to be kicked by this CPU. One without a
    /// number does not go on to `KICKED`.
    pub(crate) fn kicking(by: Option<Cpu>) -> Self {
        Self::KICKING.saying(by.map_or(0, |cpu| cpu.index() as u32 + 1))
    }

    /// Whether some CPU is about to kick.
    pub(crate) const fn is_kicking(self) -> bool {
        self.is(Self::KICKING)
    }

    /// Whether the waiter of a queue gave up. Its own CPU may take the place back; the CPU that
    /// would promote it skips it. The state counts: a CPU that is interrupted before it takes the
    /// place back may find that the node, meanwhile skipped, has served another wait that was given
    /// up.
    pub(crate) const fn is_given_up(self) -> bool {
        self.is(Self::GIVEN_UP)
    }

    /// `ticket.rs`: gave up this ticket; the CPU that would serve it skips it.
    pub(crate) const fn ticket_given_up(ticket: u32) -> Self {
        Self::TICKET_GIVEN_UP.saying(ticket)
    }

    /// `ticket.rs`: gave up this ticket; a CPU looks whether it is served.
    pub(crate) const fn ticket_in_hand(ticket: u32) -> Self {
        Self::TICKET_IN_HAND.saying(ticket)
    }

    /// `ticket.rs`: gave up this ticket; the CPU that looks whether it is served has to look again.
    pub(crate) const fn ticket_due(ticket: u32) -> Self {
        Self::TICKET_DUE.saying(ticket)
    }

    /// `park.rs`: halted, or about to, for a word with this second tag. A late kick for another
    /// word, for which this CPU halted before, does not end the halt.
    pub(crate) const fn parked(tag: u32) -> Self {
        Self::PARKED.saying(tag)
    }
}

/// The cell of a [`NodeState`].
#[derive(Debug)]
pub(crate) struct State<W>(W);

impl<W: Atomic<u32>> State<W> {
    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> NodeState {
        NodeState(self.0.load(order))
    }

    #[track_caller]
    pub(crate) fn store(&self, to: NodeState, order: Ordering) {
        self.0.store(to.0, order);
    }

    #[track_caller]
    pub(crate) fn swap(&self, to: NodeState, order: Ordering) -> NodeState {
        NodeState(self.0.swap(to.0, order))
    }

    /// Changes the state `from -> to`. Returns the one that was there if it was another.
    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        from: NodeState,
        to: NodeState,
        order: Ordering,
    ) -> Result<(), NodeState> {
        self.0.compare_exchange(from.0, to.0, order, Relaxed).map(drop).map_err(NodeState)
    }

    /// The cell, for [`Platform::wait`](crate::platform::Platform::wait) and the kick that ends it.
    pub(crate) fn cell(&self) -> &W {
        &self.0
    }
}

impl<W: ConstAtomic<u32>> Node<W> {
    pub(super) const fn new() -> Self {
        Self {
            state: State(W::ZERO),
            next: W::ZERO,
            since: W::ZERO,
            kicked: W::ZERO,
            trace: Trace::new(),
        }
    }
}

impl<W: Atomic<u32>> Node<W> {
    /// A node whose cells are created at run time, each holding zero.
    pub(super) fn with(cell: &mut impl FnMut() -> W) -> Self {
        Self {
            state: State(cell()),
            next: cell(),
            since: cell(),
            kicked: cell(),
            trace: Trace::new(),
        }
    }

    /// The state `GIVEN_UP` of one more wait that this node's CPU gives up.
    pub(crate) fn given_up(&self) -> NodeState {
        NodeState::GIVEN_UP.saying(self.trace.count_given_up())
    }

    pub(crate) fn is_for<L>(&self, lock: *const L) -> bool {
        self.trace.names(lock)
    }

    /// Marks a node that its CPU left behind: no CPU can reach it any more.
    pub(crate) fn release(&self) {
        // A waiter that gave up has left the trace.
        self.trace.wipe();
        // ORDERING: Release, with the Acquire of `Slot::take`.
        self.state.store(NodeState::RELEASED, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kick for one kind of lock changes values that are no state of another kind, whatever the
    /// upper halves hold.
    #[test]
    fn no_two_states_share_a_lower_half() {
        type S = NodeState;
        let queue = [S::WAITING, S::HALTED_BEHIND, S::HEAD, S::HEAD_HALTED, S::KICKED, S::SKIPPED];
        let tickets = [S::TICKET_GIVEN_UP, S::TICKET_IN_HAND, S::TICKET_DUE];
        let says = [S::GIVEN_UP, S::KICKING, S::PARKED];
        let others = [S::TICKET_RUNNING, S::TICKET_HALTED, S::UNPARKED];
        let all = || queue.into_iter().chain(says).chain(tickets).chain(others);
        for (i, one) in all().enumerate() {
            assert!(one.0 < 1 << SAYS_SHIFT && !S::RELEASED.is(one));
            assert!(one.saying(0xffff).is(one));
            assert!(all().skip(i + 1).all(|other| !other.is(one)), "{one:?}");
        }
    }
}
