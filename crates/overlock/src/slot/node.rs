// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue nodes, and the meaning of their states.

use core::sync::atomic::Ordering::Release;

use super::repair::Trace;
use crate::atomic::{Atomic, ConstAtomic};
use crate::platform::Platform;

/// A place in a queue.
///
/// The lock that uses the node defines what its words mean; see `queue.rs` and `ticket.rs`.
#[derive(Debug)]
pub(crate) struct Node<P: Platform> {
    /// How far the waiter has got: the one word on which it and its waker race.
    pub(crate) state: P::Word,
    /// The code of the next node in the queue, or zero.
    pub(crate) next: P::Word,
    /// When the waiter became the queue head: the low half of [`Platform::now_ns`] in units of
    /// 1,024 ns.
    pub(crate) since: P::Word,
    /// When the waiter was kicked, in the same format.
    pub(crate) kicked: P::Word,
    pub(super) trace: Trace,
}

/// The [`Node::state`] of a node that its CPU left behind and that no CPU can reach any more.
pub(crate) const RELEASED: u32 = u32::MAX;

/// The values of a node's `state`: those of all locks, distinguished by their lower halves.
///
/// A node serves one wait after another, for locks of every kind, and a late kick for an earlier
/// wait may reach it during a later one. A kick changes a state only from the value that it
/// expects. Since no two kinds of wait share a value, it can't change the state of another kind.
pub(crate) mod state {
    /// `queue.rs`: in the queue, awake.
    pub(crate) const WAITING: u32 = 0;
    /// `queue.rs`: in the queue, halted or about to.
    pub(crate) const HALTED: u32 = 1;
    /// `queue.rs`: the queue head, awake.
    pub(crate) const HEAD: u32 = 2;
    /// `queue.rs`: the queue head, halted or about to, in the table.
    pub(crate) const HEAD_HALTED: u32 = 3;
    /// `queue.rs`: the queue head, in the table, kicked.
    pub(crate) const KICKED: u32 = 4;
    /// `queue.rs`: gave up. Its own CPU may take the place back; the CPU that would promote it
    /// skips it. The upper half counts: a CPU that is interrupted before it takes the place back
    /// may find that the node, meanwhile skipped, has served another wait that was given up.
    pub(crate) const ABANDONED: u32 = 5;
    /// `queue.rs`: gave up, and is being skipped: its own CPU can't take the place back any more.
    pub(crate) const SKIPPED: u32 = 12;
    /// `queue.rs`: the queue head, in the table, about to be kicked. The upper half is the number
    /// of the kicking CPU plus one, or zero for a CPU without a number, which does not go on to
    /// `KICKED`.
    pub(crate) const KICKING: u32 = 6;
    /// `ticket.rs`: awake.
    pub(crate) const TICKET_RUNNING: u32 = 7;
    /// `ticket.rs`: halted, or about to.
    pub(crate) const TICKET_HALTED: u32 = 8;
    /// `ticket.rs`: abandoned. The upper half is the ticket; the CPU that would serve it skips it.
    pub(crate) const TICKET_ABANDONED: u32 = 11;
    /// `park.rs`: awake.
    pub(crate) const UNPARKED: u32 = 9;
    /// `park.rs`: halted, or about to. The upper half is the tag of the word that the CPU halts
    /// for, so that a late kick for another word, for which this CPU halted before, does not end
    /// this halt.
    pub(crate) const PARKED: u32 = 10;

    /// Whether a state is `ABANDONED`, whichever wait was given up.
    pub(crate) const fn is_abandoned(state: u32) -> bool {
        state & 0xffff == ABANDONED
    }

    /// Whether a state is `KICKING`, whichever CPU kicks.
    pub(crate) const fn is_kicking(state: u32) -> bool {
        state & 0xffff == KICKING
    }
}

impl<P: Platform> Node<P>
where
    P::Word: ConstAtomic<u32>,
{
    pub(super) const fn new() -> Self {
        Self {
            state: P::Word::ZERO,
            next: P::Word::ZERO,
            since: P::Word::ZERO,
            kicked: P::Word::ZERO,
            trace: Trace::new(),
        }
    }
}

impl<P: Platform> Node<P> {
    /// A node whose cells are created at run time, each holding zero.
    pub(super) fn with(cell: &mut impl FnMut() -> P::Word) -> Self {
        Self { state: cell(), next: cell(), since: cell(), kicked: cell(), trace: Trace::new() }
    }

    /// The state `ABANDONED` of one more wait that this node's CPU gives up.
    pub(crate) fn abandoned(&self) -> u32 {
        state::ABANDONED | self.trace.count_given_up() << 16
    }

    /// Whether the CPU of this node waits for `lock` with it.
    pub(crate) fn is_for<L>(&self, lock: *const L) -> bool {
        self.trace.names(lock)
    }

    /// Marks a node that its CPU left behind: no CPU can reach it any more.
    pub(crate) fn release(&self) {
        // A waiter that gave up has left the trace.
        self.trace.wipe();
        // ORDERING: Release, with the Acquire of `Slot::take`.
        self.state.store(RELEASED, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::state::*;

    /// A kick for one kind of lock changes values that are no state of another kind, whatever the
    /// upper halves hold.
    #[test]
    fn no_two_states_share_a_lower_half() {
        let queue = [WAITING, HALTED, HEAD, HEAD_HALTED, KICKED, ABANDONED, SKIPPED, KICKING];
        let others = [TICKET_RUNNING, TICKET_HALTED, TICKET_ABANDONED, UNPARKED, PARKED];
        let all = || queue.into_iter().chain(others);
        for (i, one) in all().enumerate() {
            assert!(one < 1 << 16);
            assert!(all().skip(i + 1).all(|other| other != one), "{one}");
        }
    }
}
