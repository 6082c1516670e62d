//! The state of a CPU: its number and its queue nodes.
//!
//! A CPU waits for at most one lock at a time in each context (task, soft interrupt, hard
//! interrupt, non-maskable interrupt; for a thread: itself and nested signal handlers). So four
//! nodes for each CPU serve all locks, and a lock word needs to name only a CPU and a nesting
//! level: the *tail code* of [`NodeId`], 16 bits.
//!
//! A CPU takes a node by [`Slot::take`], and dropping its token (`entered.rs`) returns it. A bit
//! mask records the nodes in use. Only the slot's own CPU writes it, but by RMWs, so that an
//! interrupt between any two instructions finds it consistent (F5, F6).
//!
//! Sometimes a CPU must leave while others can still reach its node. The node's bit then stays set.
//! The last CPU that can reach the node marks it [`RELEASED`](NodeState::RELEASED), and the node's
//! own CPU finds that mark when it next looks for a node. The node of a waiter that gave up keeps
//! its trace until then: by it the CPU finds its place in the queue again ([`Slot::left_in`]).
//!
//! `id` names CPUs and nodes, `node` defines the contents of a node, `trace` says which lock its
//! CPU waits for, and `mend` removes waiters that never go on.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::atomic::{Atomic, ConstAtomic};

mod id;
mod mend;
mod node;
mod trace;

pub(crate) use id::NodeId;
pub use id::{Cpu, MAX_CPUS};
pub(crate) use node::{Node, NodeState, State};
pub(crate) use trace::{Care, step};

/// How deep lock operations with a node can nest on one CPU.
pub const LEVELS: usize = 4;

/// The record of one CPU: its nodes and which are in use.
#[derive(Debug)]
#[repr(align(64))]
pub struct Slot<W> {
    nodes: [Node<W>; LEVELS],
    busy: W,
    in_vain: W,
}

impl<W: ConstAtomic<u32>> Slot<W> {
    /// A slot with no node in use: all zero, so a static table of slots takes no room in a file and
    /// lies in anonymous memory, which a kernel can clear in forked children (`MADV_WIPEONFORK`).
    pub const fn new() -> Self {
        Self { nodes: [const { Node::new() }; LEVELS], busy: W::ZERO, in_vain: W::ZERO }
    }
}

impl<W: ConstAtomic<u32>> Default for Slot<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Atomic<u32>> Slot<W> {
    /// A slot whose cells are created at run time, each holding zero, for platforms whose cells
    /// can't be constants.
    pub fn with(mut cell: impl FnMut() -> W) -> Self {
        let nodes = core::array::from_fn(|_| Node::with(&mut cell));
        Self { nodes, busy: cell(), in_vain: cell() }
    }

    /// For [`Platform::in_vain`](crate::platform::Platform::in_vain).
    #[doc(hidden)]
    #[inline]
    pub fn in_vain(&self) -> &W {
        &self.in_vain
    }

    pub(crate) fn node(&self, level: usize) -> &Node<W> {
        &self.nodes[level]
    }

    /// Takes a free node, for the CPU whose slot this is. Returns its level, or `None` if all nodes
    /// are in use (F7).
    pub(crate) fn take(&self) -> Option<usize> {
        (0..LEVELS).find(|&level| {
            let bit = 1 << level;
            let state = &self.nodes[level].state;
            self.busy.fetch_or(bit, Relaxed) & bit == 0
                // ORDERING: Acquire, with the Release of `release`: no other CPU can reach the
                // node.
                || state.compare_exchange(NodeState::RELEASED, NodeState::WAITING, Acquire).is_ok()
        })
    }

    /// Returns a node that [`take`](Self::take) took.
    pub(crate) fn give_back(&self, level: usize) {
        self.busy.fetch_and(!(1 << level), Relaxed);
    }

    /// The level of the node with which this CPU gave up a wait in the queue of `lock`, if it is
    /// still there, and its state, which no other wait has.
    pub(crate) fn left_in<L>(&self, lock: *const L) -> Option<(usize, NodeState)> {
        self.nodes.iter().enumerate().find_map(|(level, node)| {
            let seen = node.state.load(Relaxed);
            (seen.is_given_up() && node.is_for(lock)).then_some((level, seen))
        })
    }
}
