//! Removing waiters that never go on: those that a forked child does not have, and those that a
//! signal handler has jumped out of.
//!
//! A forked child has copies of the locks with all their waiters, but none of the waiting threads.
//! [`Slot::mend`] removes the waiters of all other threads from the locks that their traces name.
//!
//! ```text
//!   waiter        leave -> join the queue, wait, take the lock -> wipe
//!   fork here     mend: nothing to do | waiters go, LOCKED stays | nothing to do
//! ```
//!
//! A lock that was held by a vanished thread stays locked in the child, as POSIX prescribes; so
//! does a lock that was about to be handed to a vanished waiter.
//!
//! # A waiter that is thrown out
//!
//! A signal handler may jump out of the wait that it interrupted. The waiter's frames are then gone
//! at whatever instruction they were, while its node is in the queue. [`Slot::give_up`] finds its
//! waits by their traces, which also record where on the stack a wait is and how far it has got
//! ([`step`]), and gives them up. That is impossible while it joins or leaves the queue, for some
//! ten instructions, because then nothing tells which of them have been executed.

use core::sync::atomic::Ordering::Relaxed;

use super::id::{Cpu, NodeId};
use super::node::NodeState;
use super::trace::{Trace, step};
use super::{LEVELS, Slot};
use crate::atomic::Atomic;

impl<W: Atomic<u32>> Slot<W> {
    /// Whether this CPU waits for a lock, or has left a node behind. For that CPU itself.
    #[doc(hidden)]
    pub fn is_waiting(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    /// Whether this CPU has a node for one more wait. For that CPU itself.
    #[doc(hidden)]
    pub fn has_free_node(&self) -> bool {
        let busy = self.busy.load(Relaxed);
        (0..LEVELS).any(|level| {
            busy & 1 << level == 0 || self.nodes[level].state.load(Relaxed) == NodeState::RELEASED
        })
    }

    /// Gives up the waits of this CPU, which is number `cpu`, of which `is_gone` says so, given
    /// their places on the stack. Returns false if that is impossible for one of them; its lock is
    /// then unusable.
    ///
    /// # Safety
    /// The caller runs on this CPU and has interrupted those waits, which never go on. Their locks
    /// are alive.
    #[doc(hidden)]
    pub unsafe fn give_up(&self, cpu: Cpu, is_gone: impl Fn(usize) -> bool) -> bool {
        let mut all = true;
        let gone = |trace: &Trace| trace.named().filter(|_| is_gone(trace.at()));
        for level in (0..LEVELS).rev() {
            let trace = &self.nodes[level].trace;
            let step = trace.step();
            if let Some((lock, care)) = gone(trace).filter(|_| step != step::GIVEN_UP) {
                // SAFETY: a lock is alive while a trace names it; the rest is the caller's.
                all &= unsafe { (care.give_up)(lock, NodeId::new(cpu, level), step) };
            }
        }
        all
    }
}

#[cfg(feature = "threads")]
impl<W: Atomic<u32>> Slot<W> {
    /// Removes this CPU from the locks for which it gave up waiting, and releases the nodes that it
    /// left there. Otherwise like [`mend`](Self::mend), for the CPU that goes on in the child.
    ///
    /// # Safety
    /// The caller is the only CPU that exists.
    pub(crate) unsafe fn mend_left(&self, is_ours: &impl Fn(*const ()) -> bool) {
        for node in &self.nodes {
            // Only the first holds if a signal handler forks between the CAS that gives a wait up
            // and the step after it, or while the wait is being taken back.
            let is_left =
                node.state.load(Relaxed).is_given_up() || node.trace.step() == step::GIVEN_UP;
            if is_left && node.trace.named().is_some() {
                // SAFETY: the caller guarantees that it is the only CPU.
                unsafe { node.trace.follow(is_ours) };
                node.release();
            }
        }
    }

    /// Removes this CPU, which no longer exists, from the locks that it was waiting for, and frees
    /// its nodes. It leaves a lock alone unless `is_ours` says that the lock's memory is the
    /// child's own.
    ///
    /// # Safety
    /// The caller is the only CPU that exists.
    pub(crate) unsafe fn mend(&self, is_ours: &impl Fn(*const ()) -> bool) {
        for node in &self.nodes {
            // SAFETY: the caller guarantees that it is the only CPU.
            unsafe { node.trace.follow(is_ours) };
        }
        self.busy.store(0, Relaxed);
    }
}
