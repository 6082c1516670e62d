// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every CPU has: its number, and its queue nodes.
//!
//! A CPU waits for at most one lock at a time in each context (task, soft interrupt, hard
//! interrupt, non-maskable interrupt; for a thread: itself and nested signal handlers). So four
//! nodes for each CPU serve all locks, and a lock word needs to name only a CPU and a nesting
//! level: the *tail code* of [`NodeId`], 16 bits.
//!
//! A node is taken by [`Slot::enter`] and returned when the [`Entered`] token is dropped. Which
//! nodes are in use is a bit mask that only the slot's own CPU writes; it is written with RMWs, so
//! that an interrupt between two instructions finds it right (F5, F6).
//!
//! Sometimes a CPU must go while others can still reach its node ([`Entered::leave_behind`]). The
//! node's bit then stays set; whoever reaches the node last marks it [`RELEASED`], and its own CPU
//! finds that when it next looks for a node.

use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::platform::{MAX_CPUS, Platform};

/// The number of a CPU: less than [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu(u16);

impl Cpu {
    /// The CPU numbered `index`, or `None` if a lock word has no room for that number.
    #[inline]
    pub const fn new(index: usize) -> Option<Self> {
        if index < MAX_CPUS { Some(Self(index as u16)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How deep lock operations can nest on one CPU with a node each.
pub const LEVELS: usize = 4;

/// The 16-bit name of a queue node: CPU number plus one, then two bits of nesting level. Zero names
/// nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u16);

impl NodeId {
    const fn new(cpu: Cpu, level: usize) -> Self {
        Self(((cpu.0 + 1) << 2) | level as u16)
    }

    /// The node with this code, or `None` for code zero.
    #[inline]
    pub(crate) const fn decode(code: u32) -> Option<Self> {
        if code == 0 { None } else { Some(Self(code as u16)) }
    }

    /// The code: not zero, less than 65,536.
    #[inline]
    pub(crate) const fn code(self) -> u32 {
        self.0 as u32
    }

    /// The CPU whose node this is.
    #[inline]
    pub(crate) const fn cpu(self) -> Cpu {
        Cpu((self.0 >> 2) - 1)
    }

    /// The node itself.
    #[inline]
    pub(crate) fn node<P: Platform>(self) -> &'static Node<P> {
        &P::slot(self.cpu()).nodes[(self.0 & 3) as usize]
    }
}

/// What a node's `state` says: all values of all locks, told apart by their lower halves.
///
/// A node serves one wait after another, for locks of every kind, and a late kick for an earlier
/// wait may find it at a later one. It changes a state only from the value that it expects, so
/// values that no two kinds of wait share keep it from changing another's.
pub(crate) mod state {
    /// `queue.rs`: in the queue, awake.
    pub(crate) const WAITING: u32 = 0;
    /// `queue.rs`: in the queue, halted or about to.
    pub(crate) const HALTED: u32 = 1;
    /// `queue.rs`: the queue head, awake.
    pub(crate) const HEAD: u32 = 2;
    /// `queue.rs`: the queue head, halted or about to, in the table.
    pub(crate) const HEAD_HALTED: u32 = 3;
    /// `queue.rs`: the queue head, in the table, called back.
    pub(crate) const KICKED: u32 = 4;
    /// `queue.rs`: gave up; skipped by whoever promotes it.
    pub(crate) const ABANDONED: u32 = 5;
    /// `queue.rs`: the queue head, in the table, about to be called back. The upper half is the
    /// number of the CPU that does it, plus one; or zero for one without a number, which leaves it
    /// at that.
    pub(crate) const KICKING: u32 = 6;
    /// `ticket.rs`: awake.
    pub(crate) const TICKET_RUNNING: u32 = 7;
    /// `ticket.rs`: halted, or about to.
    pub(crate) const TICKET_HALTED: u32 = 8;
    /// `park.rs`: awake.
    pub(crate) const UNPARKED: u32 = 9;
    /// `park.rs`: halted, or about to. The upper half is the tag of what for, so that a late kick
    /// for another word, which this CPU halted for before, does not hit this halt.
    pub(crate) const PARKED: u32 = 10;

    /// Whether a state is `KICKING`, by any CPU.
    pub(crate) const fn is_kicking(state: u32) -> bool {
        state & 0xffff == KICKING
    }
}

/// A place in a queue.
///
/// What the words mean is up to the lock that uses the node; see `queue.rs` and `ticket.rs`.
#[derive(Debug)]
pub(crate) struct Node<P: Platform> {
    /// How far the waiter is: the one word that it and its waker race on.
    pub(crate) state: P::Word,
    /// The code of the next node in the queue, or zero.
    pub(crate) next: P::Word,
    /// When the waiter became the queue head: the low half of [`Platform::now_ns`] in units of
    /// 1,024 ns.
    pub(crate) since: P::Word,
    /// When the waiter was kicked, likewise.
    pub(crate) kicked: P::Word,
    trace: Trace,
}

/// Which lock a CPU has left traces in, and how to remove them should the CPU cease to exist.
///
/// A `fork` copies the locks with all their waiters, but none of the waiting threads: see
/// [`Slot::bury`]. These are plain atomics, not cells of the platform: they take no part in any
/// lock's protocol.
#[derive(Debug)]
pub(crate) struct Trace {
    lock: AtomicPtr<()>,
    mend: AtomicPtr<()>,
}

/// Removes the traces of all waiters from a lock, whose address it is given.
///
/// # Safety
/// The lock is alive, and nobody else uses it at the same time.
pub(crate) type Mend = unsafe fn(lock: *const ());

impl Trace {
    const fn new() -> Self {
        Self { lock: AtomicPtr::new(ptr::null_mut()), mend: AtomicPtr::new(ptr::null_mut()) }
    }

    /// From here on there are traces in `lock`.
    fn leave<L>(&self, lock: *const L, mend: Mend) {
        self.mend.store(mend as *mut (), Relaxed);
        self.lock.store(lock.cast_mut().cast(), Relaxed);
    }

    /// From here on there are none.
    fn wipe(&self) {
        self.lock.store(ptr::null_mut(), Relaxed);
    }

    /// Removes the traces, if there are any.
    ///
    /// # Safety
    /// No CPU but the caller exists.
    #[cfg(feature = "threads")]
    unsafe fn mend(&self) {
        let (lock, mend) = (self.lock.load(Relaxed), self.mend.load(Relaxed));
        if lock.is_null() || mend.is_null() {
            return;
        }
        self.wipe();
        // SAFETY: `leave` stored a `Mend` here, and a function pointer and a data pointer have the
        // same size and validity on the platforms that fork.
        let mend = unsafe { mem::transmute::<*mut (), Mend>(mend) };
        // SAFETY: a lock is alive while it holds traces of a waiter, which was inside a lock
        // operation; and the caller is alone.
        unsafe { mend(lock) };
    }
}

/// [`Node::state`] of a node that its CPU left behind and nobody can reach any more.
pub(crate) const RELEASED: u32 = u32::MAX;

/// The record of one CPU: its nodes and which are in use.
#[derive(Debug)]
#[repr(align(64))]
pub struct Slot<P: Platform> {
    nodes: [Node<P>; LEVELS],
    busy: P::Word,
    /// The lock that this CPU spins for as a newcomer.
    spins_for: Trace,
}

impl<P: Platform> Slot<P>
where
    P::Word: ConstAtomic<u32>,
{
    /// A slot with no node in use.
    pub const fn new() -> Self {
        Self {
            nodes: [const { Node::new() }; LEVELS],
            busy: P::Word::ZERO,
            spins_for: Trace::new(),
        }
    }
}

impl<P: Platform> Node<P>
where
    P::Word: ConstAtomic<u32>,
{
    const fn new() -> Self {
        Self {
            state: P::Word::ZERO,
            next: P::Word::ZERO,
            since: P::Word::ZERO,
            kicked: P::Word::ZERO,
            trace: Trace::new(),
        }
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
    /// A slot whose cells are made at run time, each holding zero, for platforms whose cells can't
    /// be constants.
    pub fn with(mut cell: impl FnMut() -> P::Word) -> Self {
        let nodes = core::array::from_fn(|_| Node {
            state: cell(),
            next: cell(),
            since: cell(),
            kicked: cell(),
            trace: Trace::new(),
        });
        Self { nodes, busy: cell(), spins_for: Trace::new() }
    }

    /// Takes a free node of this CPU, or `None` if it has no number or all its nodes are in use
    /// (F7).
    pub(crate) fn enter() -> Option<Entered<P>> {
        let cpu = P::cpu()?;
        let slot = P::slot(cpu);
        let level = (0..LEVELS).find(|&level| slot.take(level))?;
        slot.nodes[level].trace.wipe();
        Some(Entered { id: NodeId::new(cpu, level), platform: PhantomData })
    }

    fn take(&self, level: usize) -> bool {
        let bit = 1 << level;
        let state = &self.nodes[level].state;
        self.busy.fetch_or(bit, Relaxed) & bit == 0
            // ORDERING: Acquire, with the Release of `release`: nobody reaches the node any more.
            || state.compare_exchange(RELEASED, 0, Acquire, Relaxed).is_ok()
    }

    /// This CPU spins for `lock` outside its queue from here on, or no longer for any.
    pub(crate) fn spins_for<L>(lock: Option<(*const L, Mend)>) {
        let Some(cpu) = P::cpu() else { return };
        let trace = &P::slot(cpu).spins_for;
        match lock {
            Some((lock, mend)) => trace.leave(lock, mend),
            None => trace.wipe(),
        }
    }

    /// Removes all traces of this CPU, which no longer exists, from the locks it was waiting for,
    /// and frees its nodes.
    ///
    /// # Safety
    /// No CPU but the caller exists.
    #[cfg(feature = "threads")]
    pub(crate) unsafe fn bury(&self) {
        // SAFETY: the caller's word.
        unsafe { self.spins_for.mend() };
        let busy = self.busy.load(Relaxed);
        for (level, node) in self.nodes.iter().enumerate() {
            if busy & 1 << level != 0 && node.state.load(Relaxed) != RELEASED {
                // SAFETY: the caller's word.
                unsafe { node.trace.mend() };
            }
        }
        self.busy.store(0, Relaxed);
    }
}

impl<P: Platform> Node<P> {
    /// Marks a node that its CPU left behind as reachable by nobody.
    pub(crate) fn release(&self) {
        // ORDERING: Release, with the Acquire of `Slot::take`.
        self.state.store(RELEASED, Release);
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

    /// From here on this node leaves traces in `lock`.
    pub(crate) fn trace<L>(&self, lock: *const L, mend: Mend) {
        self.node().trace.leave(lock, mend);
    }

    /// How many nodes of this CPU are in use below this one.
    pub(crate) fn level(&self) -> usize {
        usize::from(self.id.0 & 3)
    }

    /// Goes without returning the node, because others can still reach it. The last of them calls
    /// [`Node::release`].
    pub(crate) fn leave_behind(self) {
        mem::forget(self);
    }
}

impl<P: Platform> Drop for Entered<P> {
    fn drop(&mut self) {
        P::slot(self.id.cpu()).busy.fetch_and(!(1 << self.level()), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::state::*;

    /// What a kick for one kind of lock changes is no state of another kind, whatever the upper
    /// halves hold.
    #[test]
    fn no_two_states_share_a_lower_half() {
        let queue = [WAITING, HALTED, HEAD, HEAD_HALTED, KICKED, ABANDONED, KICKING];
        let others = [TICKET_RUNNING, TICKET_HALTED, UNPARKED, PARKED];
        let all = || queue.into_iter().chain(others);
        for (i, one) in all().enumerate() {
            assert!(one < 1 << 16);
            assert!(all().skip(i + 1).all(|other| other != one), "{one}");
        }
    }
}
