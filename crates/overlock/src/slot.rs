// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a CPU: its number and its queue nodes.
//!
//! A CPU waits for at most one lock at a time in each context (task, soft interrupt, hard
//! interrupt, non-maskable interrupt; for a thread: itself and nested signal handlers). So four
//! nodes for each CPU serve all locks, and a lock word needs to name only a CPU and a nesting
//! level: the *tail code* of [`NodeId`], 16 bits.
//!
//! [`Slot::enter`] takes a node, and dropping the [`Entered`] token returns it. A bit mask records
//! the nodes in use. Only the slot's own CPU writes it, but by RMWs, so that an interrupt between
//! any two instructions finds it consistent (F5, F6).
//!
//! Sometimes a CPU must leave while others can still reach its node ([`Entered::leave_behind`]).
//! The node's bit then stays set. The last CPU that can reach the node marks it [`RELEASED`], and
//! the node's own CPU finds that mark when it next looks for a node. The node of a waiter that gave
//! up keeps its trace until then ([`Entered::leave_abandoned`]): by it the CPU finds its place in
//! the queue again ([`Slot::left_in`]).
//!
//! `id` names CPUs and nodes, `node` defines the contents of a node, and `repair` removes waiters
//! that a forked child does not have from its locks.

use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::atomic::{Atomic, ConstAtomic};
use crate::platform::Platform;

mod id;
mod node;
mod repair;

pub use id::Cpu;
pub(crate) use id::NodeId;
pub(crate) use node::{Node, NodeState};
pub(crate) use repair::{Care, step};

/// How deep lock operations with a node can nest on one CPU.
pub const LEVELS: usize = 4;

/// The record of one CPU: its nodes and which are in use.
#[derive(Debug)]
#[repr(align(64))]
pub struct Slot<P: Platform> {
    nodes: [Node<P>; LEVELS],
    busy: P::Word,
}

impl<P: Platform> Slot<P>
where
    P::Word: ConstAtomic<u32>,
{
    /// A slot with no node in use: all zero, so a static table of slots takes no room in a file and
    /// lies in anonymous memory, which a kernel can clear in forked children (`MADV_WIPEONFORK`).
    pub const fn new() -> Self {
        Self { nodes: [const { Node::new() }; LEVELS], busy: P::Word::ZERO }
    }
}

impl<P: Platform> Default for Slot<P>
where
    P::Word: ConstAtomic<u32>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Slot<P> {
    /// A slot whose cells are created at run time, each holding zero, for platforms whose cells
    /// can't be constants.
    pub fn with(mut cell: impl FnMut() -> P::Word) -> Self {
        let nodes = core::array::from_fn(|_| Node::with(&mut cell));
        Self { nodes, busy: cell() }
    }

    /// Takes a free node of this CPU. Returns `None` if the CPU has no number or all its nodes are
    /// in use (F7).
    pub(crate) fn enter() -> Option<Entered<P>> {
        let cpu = P::cpu()?;
        let slot = P::slot(cpu);
        let level = (0..LEVELS).find(|&level| slot.take(level))?;
        Some(Entered { id: NodeId::new(cpu, level), platform: PhantomData })
    }

    /// The node with which this CPU gave up a wait in the queue of `lock`, if it is still there,
    /// and its state, which no other wait has.
    pub(crate) fn left_in<L>(lock: *const L) -> Option<(NodeId, NodeState)> {
        let cpu = P::cpu()?;
        let left = |(level, node): (usize, &Node<P>)| {
            let seen = node.state.load(Relaxed);
            let is_left = seen.is_abandoned() && node.is_for(lock);
            is_left.then(|| (NodeId::new(cpu, level), seen))
        };
        P::slot(cpu).nodes.iter().enumerate().find_map(left)
    }

    fn take(&self, level: usize) -> bool {
        let bit = 1 << level;
        let state = &self.nodes[level].state;
        self.busy.fetch_or(bit, Relaxed) & bit == 0
            // ORDERING: Acquire, with the Release of `release`: no other CPU can reach the node.
            || state.compare_exchange(NodeState::RELEASED, NodeState::WAITING, Acquire).is_ok()
    }
}

/// A node in use by this CPU, returned on drop.
#[derive(Debug)]
pub(crate) struct Entered<P: Platform> {
    id: NodeId,
    platform: PhantomData<P>,
}

impl<P: Platform> Entered<P> {
    #[inline]
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    #[inline]
    pub(crate) fn node(&self) -> &'static Node<P> {
        self.id.node()
    }

    /// The nesting level: how many nodes of this CPU were in use below this one.
    pub(crate) fn level(&self) -> usize {
        self.id.level()
    }

    /// Ends the use of the node without returning it, because other CPUs can still reach it. The
    /// last of them calls [`Node::release`].
    pub(crate) fn leave_behind(self) {
        self.node().trace.wipe();
        mem::forget(self);
    }
}

impl<P: Platform> Drop for Entered<P> {
    fn drop(&mut self) {
        self.node().trace.wipe();
        P::slot(self.id.cpu()).busy.fetch_and(!(1 << self.level()), Relaxed);
    }
}
