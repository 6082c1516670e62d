// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fork repair: a forked child has copies of the locks with all their waiters, but none of the
//! waiting threads.
//!
//! So a waiter leaves a [`Trace`] of the lock before it changes the lock's words, and wipes it once
//! it holds the lock or has given up. A lock that a trace names is therefore alive. In the child,
//! [`Slot::bury`] removes the waiters of all other threads from the locks that their traces name.
//!
//! ```text
//!   waiter        leave -> join the queue, wait, take the lock -> wipe
//!   fork here     mend: nothing to do | waiters go, LOCKED stays | nothing to do
//! ```
//!
//! A lock that was held by a vanished thread stays locked in the child, as POSIX prescribes; so
//! does a lock that was about to be handed to a vanished waiter.
//!
//! Traces are plain atomics, not cells of the platform, because they take no part in any lock's
//! protocol.

use core::ptr;
use core::sync::atomic::AtomicPtr;
#[cfg(feature = "threads")]
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{Entered, Slot};
#[cfg(feature = "threads")]
use crate::atomic::Atomic;
use crate::platform::Platform;

/// Which lock a CPU waits for, and how to take all waiters out of it.
#[derive(Debug)]
pub(super) struct Trace {
    lock: AtomicPtr<()>,
    mend: AtomicPtr<()>,
}

/// Removes all waiters from the lock at the given address. Whether the lock is held does not
/// change.
///
/// # Safety
/// The lock is alive, and no other CPU uses it at the same time.
pub(crate) type Mend = unsafe fn(lock: *const ());

impl Trace {
    pub(super) const fn new() -> Self {
        Self { lock: AtomicPtr::new(ptr::null_mut()), mend: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Names `lock` from here on, or no lock if it is null.
    fn leave(&self, lock: *mut (), mend: *mut ()) {
        self.wipe();
        // ORDERING: Release, with the Acquire in `named`: this store comes after the one in `wipe`.
        self.mend.store(mend, Release);
        // ORDERING: Release, with the Acquire in `named`.
        self.lock.store(lock, Release);
    }

    /// Names no lock from here on.
    pub(super) fn wipe(&self) {
        self.lock.store(ptr::null_mut(), Relaxed);
    }

    /// The lock that the trace names, and how to mend it.
    #[cfg(feature = "threads")]
    fn named(&self) -> Option<(*const (), Mend)> {
        // ORDERING: Acquire, with the Releases in `leave`: a child sees the stores of its parent's
        // threads in their order.
        let (lock, mend) = (self.lock.load(Acquire), self.mend.load(Relaxed));
        if lock.is_null() || mend.is_null() {
            return None;
        }
        // SAFETY: `leave` stored a `Mend` before it stored the lock, and a function pointer and a
        // data pointer have the same size and validity on the platforms that fork.
        Some((lock.cast_const(), unsafe { core::mem::transmute::<*mut (), Mend>(mend) }))
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
        if let Some((lock, mend)) = named.filter(|(lock, _)| is_ours(*lock)) {
            // SAFETY: a lock is alive while a trace names it, and the caller is the only CPU.
            unsafe { mend(lock) };
        }
    }
}

/// The trace of a newcomer; dropping this value ends it. A signal handler may interrupt the
/// newcomer and leave its own trace; it then puts back the trace that it found.
pub(crate) struct Traced<P: Platform> {
    slot: Option<&'static Slot<P>>,
    before: (*mut (), *mut ()),
}

impl<P: Platform> Traced<P> {
    /// Records that this CPU spins for `lock` outside its queue.
    pub(crate) fn newcomer<L>(lock: *const L, mend: Mend) -> Self {
        let slot = P::cpu().map(P::slot);
        let mut before = (ptr::null_mut(), ptr::null_mut());
        if let Some(slot) = slot {
            let trace = &slot.newcomer;
            before = (trace.lock.load(Relaxed), trace.mend.load(Relaxed));
            trace.leave(lock.cast_mut().cast(), mend as *mut ());
        }
        Self { slot, before }
    }
}

impl<P: Platform> Drop for Traced<P> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.newcomer.leave(self.before.0, self.before.1);
        }
    }
}

impl<P: Platform> Entered<P> {
    /// Records that this CPU waits for `lock` with this node.
    pub(crate) fn trace<L>(&self, lock: *const L, mend: Mend) {
        self.node().trace.leave(lock.cast_mut().cast(), mend as *mut ());
    }
}

#[cfg(feature = "threads")]
impl<P: Platform> Slot<P> {
    /// Removes this CPU, which no longer exists, from the locks that it was waiting for, and frees
    /// its nodes. It leaves a lock alone unless `is_ours` says that the lock's memory is the
    /// child's own.
    ///
    /// # Safety
    /// The caller is the only CPU that exists.
    pub(crate) unsafe fn bury(&self, is_ours: &impl Fn(*const ()) -> bool) {
        let traces = self.nodes.iter().map(|node| &node.trace).chain([&self.newcomer]);
        for trace in traces {
            // SAFETY: the caller guarantees that it is the only CPU.
            unsafe { trace.follow(is_ours) };
        }
        self.busy.store(0, Relaxed);
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use super::*;
    use crate::platform::Threads;

    unsafe fn nothing(_lock: *const ()) {}
    unsafe fn nothing_else(_lock: *const ()) {
        unreachable!("it mends nothing");
    }

    #[test]
    fn a_handler_s_trace_gives_way_to_the_one_that_it_found() {
        let trace = &Threads::slot(Threads::cpu().unwrap()).newcomer;
        let named = || trace.named().map(|(lock, mend)| (lock.addr(), mend as usize));
        let (outer, inner) = (1_u8, 2_u8);
        let first = Traced::<Threads>::newcomer(&raw const outer, nothing);
        let is_first = Some(((&raw const outer).addr(), nothing as Mend as usize));
        assert_eq!(named(), is_first);
        let second = Traced::<Threads>::newcomer(&raw const inner, nothing_else);
        assert_eq!(named(), Some(((&raw const inner).addr(), nothing_else as Mend as usize)));
        drop(second);
        assert_eq!(named(), is_first);
        drop(first);
        assert_eq!(named(), None);
    }

    #[test]
    fn a_node_that_is_taken_again_names_no_lock_of_its_earlier_wait() {
        let lock = 0_u8;
        let entered = Slot::<Threads>::enter().unwrap();
        entered.trace(&raw const lock, nothing_else);
        assert!(entered.node().trace.named().is_some());
        drop(entered);
        let entered = Slot::<Threads>::enter().unwrap();
        assert!(entered.node().trace.named().is_none());
    }
}
