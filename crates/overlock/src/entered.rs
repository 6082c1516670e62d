//! Nodes in use: how a CPU takes a node of its own, halts on it, and leaves it again.

use core::marker::PhantomData;
use core::mem;

use crate::atomic::Atomic;
use crate::platform::Platform;
use crate::slot::{Care, Cpu, Node, NodeId, NodeState, State, step};

impl NodeId {
    #[inline]
    pub(crate) fn node<P: Platform>(self) -> &'static Node<P::Word> {
        P::slot(self.cpu()).node(self.level())
    }
}

impl<W: Atomic<u32>> State<W> {
    /// Halts while the state is `expected`: [`Platform::wait`].
    pub(crate) fn wait<P: Platform<Word = W>>(
        &self,
        expected: NodeState,
        deadline_ns: Option<u64>,
    ) {
        P::wait(self.cell(), expected.bits(), deadline_ns);
    }

    /// Kicks `cpu`, whose state this is: [`Platform::kick`].
    pub(crate) fn kick<P: Platform<Word = W>>(&self, cpu: Cpu) {
        P::kick(self.cell(), cpu);
    }
}

/// A node in use by this CPU, returned on drop.
#[derive(Debug)]
pub(crate) struct Entered<P: Platform> {
    id: NodeId,
    platform: PhantomData<P>,
}

impl<P: Platform> Entered<P> {
    /// Takes a free node of this CPU. Returns `None` if the CPU has no number or all its nodes are
    /// in use (F7).
    pub(crate) fn new() -> Option<Self> {
        let cpu = P::cpu()?;
        Some(Self::again(NodeId::new(cpu, P::slot(cpu).take()?)))
    }

    /// The token of a node that this CPU uses or has left behind.
    pub(crate) fn again(id: NodeId) -> Self {
        Self { id, platform: PhantomData }
    }

    /// The node with which this CPU gave up a wait in the queue of `lock`, if it is still there,
    /// and its state, which no other wait has.
    pub(crate) fn left_in<L>(lock: *const L) -> Option<(NodeId, NodeState)> {
        let cpu = P::cpu()?;
        P::slot(cpu).left_in(lock).map(|(level, seen)| (NodeId::new(cpu, level), seen))
    }

    #[inline]
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    #[inline]
    pub(crate) fn node(&self) -> &'static Node<P::Word> {
        self.id.node::<P>()
    }

    /// The nesting level: how many nodes of this CPU were in use below this one.
    pub(crate) fn level(&self) -> usize {
        self.id.level()
    }

    /// Records that this CPU waits for `lock` with this node.
    #[inline]
    pub(crate) fn trace<L>(&self, lock: *const L, care: &'static Care) {
        self.node().trace.leave_here(lock, care);
    }

    /// Records how far the wait has got, a [`step`].
    #[inline]
    pub(crate) fn has_got_to(&self, step: u32) {
        self.node().trace.has_got_to(step);
    }

    /// Records that this CPU is taking back the place that it gave up.
    #[inline]
    pub(crate) fn comes_again(&self) {
        self.node().trace.comes_again();
    }

    /// Ends the use of the node without returning it, because other CPUs can still reach it. The
    /// last of them calls [`Node::release`].
    pub(crate) fn leave_behind(self) {
        self.node().trace.wipe();
        mem::forget(self);
    }

    /// Ends the use of the node like [`leave_behind`](Self::leave_behind), but leaves the trace.
    pub(crate) fn leave_given_up(self) {
        self.has_got_to(step::GIVEN_UP);
        mem::forget(self);
    }
}

impl<P: Platform> Drop for Entered<P> {
    fn drop(&mut self) {
        self.node().trace.wipe();
        P::slot(self.id.cpu()).give_back(self.level());
    }
}
