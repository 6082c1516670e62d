// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fork repair: a forked child has copies of the locks with all their waiters, but none of the
//! waiting threads.
//!
//! So a waiter leaves a [`Trace`] of the lock before it changes the lock's words, and wipes it once
//! it holds the lock. If it gives up, the trace stays until no CPU can reach its node. A lock that
//! a trace names is therefore alive. In the child, [`Slot::bury`] removes the waiters of all other
//! threads from the locks that their traces name.
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
//! at whatever instruction they were, while its node is in the queue. [`Slot::abandon`] finds its
//! waits by their traces, which also record where on the stack a wait is and how far it has got
//! ([`step`]), and gives them up. That is impossible while it joins or leaves the queue, for some
//! ten instructions, because then nothing tells which of them have been executed.
//!
//! Traces are plain atomics, not cells of the platform, because they take no part in any lock's
//! protocol.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, compiler_fence};
use core::{mem, ptr};

use super::{Cpu, Entered, LEVELS, NodeId, NodeState, Slot};
use crate::atomic::Atomic;
use crate::platform::Platform;

/// Which lock a CPU waits for, and how to take waiters out of it.
#[derive(Debug)]
pub(super) struct Trace {
    lock: AtomicPtr<()>,
    /// A [`Care`].
    care: AtomicPtr<()>,
    /// Where on its stack the CPU waits.
    at: AtomicPtr<()>,
    /// A [`step`].
    step: AtomicU32,
    /// How many waits with this node were given up.
    given_up: AtomicU32,
}

/// How far a wait has got.
pub(crate) mod step {
    /// It is joining the queue or leaving it.
    pub(crate) const MOVING: u32 = 0;
    /// It has its place in the queue.
    pub(crate) const QUEUED: u32 = 1;
    /// `ticket.rs`: it has drawn the ticket in the upper half.
    const DRAWN: u32 = 2;
    /// It was given up; its node is left behind, and the trace stays until it is released.
    pub(crate) const ABANDONED: u32 = 3;

    /// The step of a wait that has drawn `ticket`.
    pub(crate) const fn drawn(ticket: u32) -> u32 {
        DRAWN | ticket << 16
    }

    /// The ticket that a wait at this step has drawn.
    pub(crate) const fn ticket(step: u32) -> Option<u32> {
        if step & 0xffff == DRAWN { Some(step >> 16) } else { None }
    }
}

/// Removes all waiters from the lock at the given address. Whether the lock is held does not
/// change.
///
/// # Safety
/// The lock is alive, and no other CPU uses it at the same time.
pub(crate) type Mend = unsafe fn(lock: *const ());

/// Takes the waiter with this node, which has got to this [`step`], out of the lock at the given
/// address. Returns false if that is impossible.
///
/// # Safety
/// The lock is alive. The waiter is one of this CPU, and never goes on.
pub(crate) type Abandon = unsafe fn(lock: *const (), id: NodeId, got_to: u32) -> bool;

/// How to take waiters out of a lock.
pub(crate) struct Care {
    #[cfg_attr(not(feature = "threads"), allow(dead_code, reason = "only processes fork"))]
    pub(crate) mend: Mend,
    pub(crate) abandon: Abandon,
}

impl Trace {
    pub(super) const fn new() -> Self {
        let [lock, care, at] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
        let (step, given_up) = (AtomicU32::new(step::MOVING), AtomicU32::new(0));
        Self { lock, care, at, step, given_up }
    }

    /// Counts one more wait that is given up. Returns the count, from 1 to 65,535: a signal handler
    /// gets another one than the wait that it interrupts.
    pub(super) fn count_given_up(&self) -> u32 {
        self.given_up.fetch_add(1, Relaxed) % 0xffff + 1
    }

    /// Names `lock` from here on, or no lock if it is null.
    fn leave(&self, lock: *mut (), care: *mut (), at: *mut ()) {
        self.wipe();
        self.at.store(at, Relaxed);
        self.step.store(step::MOVING, Relaxed);
        // ORDERING: Release, with the Acquire in `named`: this store comes after the one in `wipe`.
        self.care.store(care, Release);
        // ORDERING: Release, with the Acquire in `named`.
        self.lock.store(lock, Release);
    }

    /// Names `lock`, for which the CPU waits here on its stack.
    #[inline]
    fn leave_here<L>(&self, lock: *const L, care: &'static Care) {
        let here = 0_u8;
        let at = (&raw const here).cast_mut().cast();
        self.leave(lock.cast_mut().cast(), (&raw const *care).cast_mut().cast(), at);
    }

    /// Names no lock from here on.
    pub(super) fn wipe(&self) {
        self.lock.store(ptr::null_mut(), Relaxed);
    }

    /// Whether the trace names this lock.
    pub(super) fn names<L>(&self, lock: *const L) -> bool {
        self.lock.load(Relaxed).cast_const() == lock.cast()
    }

    /// The lock that the trace names, and how to take waiters out of it.
    fn named(&self) -> Option<(*const (), &'static Care)> {
        // ORDERING: Acquire, with the Releases in `leave`: a child sees the stores of its parent's
        // threads in their order.
        let (lock, care) = (self.lock.load(Acquire), self.care.load(Relaxed));
        // SAFETY: `leave` stored a `&'static Care`, or null, before it stored the lock.
        let care = unsafe { care.cast::<Care>().as_ref() }?;
        (!lock.is_null()).then_some((lock.cast_const(), care))
    }

    /// Mends the lock that the trace names, if there is one and `is_ours` says that its memory is
    /// the child's own.
    ///
    /// # Safety
    /// The caller is the only CPU that exists.
    #[cfg(feature = "threads")]
    unsafe fn follow(&self, is_ours: &impl Fn(*const ()) -> bool) {
        let named = self.named();
        self.wipe();
        if let Some((lock, care)) = named.filter(|(lock, _)| is_ours(*lock)) {
            // SAFETY: a lock is alive while a trace names it, and the caller is the only CPU.
            unsafe { (care.mend)(lock) };
        }
    }
}

impl<P: Platform> Entered<P> {
    /// Records that this CPU waits for `lock` with this node.
    pub(crate) fn trace<L>(&self, lock: *const L, care: &'static Care) {
        self.node().trace.leave_here(lock, care);
    }

    /// Records how far the wait has got, a [`step`], between what was done before and what is done
    /// next.
    #[inline]
    pub(crate) fn has_got_to(&self, step: u32) {
        // A signal handler of this CPU reads it.
        compiler_fence(AcqRel);
        self.node().trace.step.store(step, Relaxed);
        compiler_fence(AcqRel);
    }

    /// Records that this CPU is taking back the place that it gave up, and that it waits here on
    /// its stack from now on. Another CPU may be wiping the trace, so the lock's name stays.
    pub(crate) fn comes_again(&self) {
        let here = 0_u8;
        self.node().trace.at.store((&raw const here).cast_mut().cast(), Relaxed);
        self.has_got_to(step::MOVING);
    }

    /// The token of a node that this CPU uses or has left behind.
    pub(crate) fn again(id: NodeId) -> Self {
        Self { id, platform: PhantomData }
    }

    /// Ends the use of the node like [`leave_behind`](Self::leave_behind), but leaves the trace.
    pub(crate) fn leave_abandoned(self) {
        self.has_got_to(step::ABANDONED);
        mem::forget(self);
    }
}

impl<P: Platform> Slot<P> {
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
    pub unsafe fn abandon(&self, cpu: Cpu, is_gone: impl Fn(usize) -> bool) -> bool {
        let mut all = true;
        let gone = |trace: &Trace| trace.named().filter(|_| is_gone(trace.at.load(Relaxed).addr()));
        for level in (0..LEVELS).rev() {
            let trace = &self.nodes[level].trace;
            let step = trace.step.load(Relaxed);
            if let Some((lock, care)) = gone(trace).filter(|_| step != step::ABANDONED) {
                // SAFETY: a lock is alive while a trace names it; the rest is the caller's.
                all &= unsafe { (care.abandon)(lock, NodeId::new(cpu, level), step) };
            }
        }
        all
    }
}

#[cfg(feature = "threads")]
impl<P: Platform> Slot<P> {
    /// Removes this CPU from the locks for which it gave up waiting, and releases the nodes that it
    /// left there. Otherwise like [`bury`](Self::bury), for the CPU that goes on in the child.
    ///
    /// # Safety
    /// The caller is the only CPU that exists.
    pub(crate) unsafe fn bury_left(&self, is_ours: &impl Fn(*const ()) -> bool) {
        for node in &self.nodes {
            // Only the first holds if a signal handler forks between the CAS that gives a wait up
            // and the step after it, or while the wait is being taken back.
            let is_left = node.state.load(Relaxed).is_abandoned()
                || node.trace.step.load(Relaxed) == step::ABANDONED;
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
    pub(crate) unsafe fn bury(&self, is_ours: &impl Fn(*const ()) -> bool) {
        for node in &self.nodes {
            // SAFETY: the caller guarantees that it is the only CPU.
            unsafe { node.trace.follow(is_ours) };
        }
        self.busy.store(0, Relaxed);
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use super::*;
    use crate::platform::Threads;

    unsafe fn nothing(_lock: *const ()) {}
    unsafe fn none(_lock: *const (), _id: NodeId, _got_to: u32) -> bool {
        unreachable!("it abandons nothing");
    }
    static ONE: Care = Care { mend: nothing, abandon: none };

    #[test]
    fn a_node_that_is_taken_again_names_no_lock_of_its_earlier_wait() {
        let lock = 0_u8;
        let entered = Slot::<Threads>::enter().unwrap();
        entered.trace(&raw const lock, &ONE);
        assert!(entered.node().trace.named().is_some());
        drop(entered);
        let entered = Slot::<Threads>::enter().unwrap();
        assert!(entered.node().trace.named().is_none());
    }
}
