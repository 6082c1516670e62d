//! Traces: which lock a CPU waits for, how far it has got, and how to take it out again.
//!
//! A waiter leaves a [`Trace`] of the lock before it changes the lock's words, and wipes it once it
//! holds the lock. If it gives up, the trace stays until no CPU can reach its node. So a lock that
//! a trace names is alive.
//!
//! Traces are plain atomics, not cells of the platform, because they take no part in any lock's
//! protocol.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, compiler_fence};

use super::id::NodeId;

/// Which lock a CPU waits for, and how to take waiters out of it.
#[derive(Debug)]
pub(crate) struct Trace {
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
    pub(crate) const GIVEN_UP: u32 = 3;

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
pub(crate) type GiveUp = unsafe fn(lock: *const (), id: NodeId, got_to: u32) -> bool;

/// How to take waiters out of a lock.
pub(crate) struct Care {
    #[cfg_attr(not(feature = "threads"), allow(dead_code, reason = "only processes fork"))]
    pub(crate) mend: Mend,
    pub(crate) give_up: GiveUp,
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
    pub(crate) fn leave_here<L>(&self, lock: *const L, care: &'static Care) {
        let here = 0_u8;
        let at = (&raw const here).cast_mut().cast();
        self.leave(lock.cast_mut().cast(), (&raw const *care).cast_mut().cast(), at);
    }

    /// Records how far the wait has got, a [`step`], between what was done before and what is done
    /// next.
    #[inline]
    pub(crate) fn has_got_to(&self, step: u32) {
        // A signal handler of this CPU reads it.
        compiler_fence(AcqRel);
        self.step.store(step, Relaxed);
        compiler_fence(AcqRel);
    }

    /// Records that the CPU is taking back the place that it gave up, and that it waits here on its
    /// stack from now on. Another CPU may be wiping the trace, so the lock's name stays.
    #[inline]
    pub(crate) fn comes_again(&self) {
        let here = 0_u8;
        self.at.store((&raw const here).cast_mut().cast(), Relaxed);
        self.has_got_to(step::MOVING);
    }

    /// How far the wait has got.
    pub(super) fn step(&self) -> u32 {
        self.step.load(Relaxed)
    }

    /// Where on its stack the CPU waits.
    pub(super) fn at(&self) -> usize {
        self.at.load(Relaxed).addr()
    }

    /// Names no lock from here on.
    pub(crate) fn wipe(&self) {
        self.lock.store(ptr::null_mut(), Relaxed);
    }

    pub(super) fn names<L>(&self, lock: *const L) -> bool {
        self.lock.load(Relaxed).cast_const() == lock.cast()
    }

    /// The lock that the trace names, and how to take waiters out of it.
    pub(super) fn named(&self) -> Option<(*const (), &'static Care)> {
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
    pub(super) unsafe fn follow(&self, is_ours: &impl Fn(*const ()) -> bool) {
        let named = self.named();
        self.wipe();
        if let Some((lock, care)) = named.filter(|(lock, _)| is_ours(*lock)) {
            // SAFETY: a lock is alive while a trace names it, and the caller is the only CPU.
            unsafe { (care.mend)(lock) };
        }
    }
}
