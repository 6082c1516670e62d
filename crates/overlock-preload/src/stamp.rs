//! Whose threads wait for a mutex or a read-write lock.
//!
//! A forked child has the words of its parent's locks, with the traces of threads that wait, but
//! not the threads: to hand a lock to the next in its queue would hand it to a thread that does not
//! exist. Two processes can also share a lock without having said so, and a queue can't name
//! threads of both. So each lock says in a word, its *stamp*, whose threads may wait for it.
//!
//! # State
//!
//! `(p, n, s)`: a process (18 bits, never zero where threads wait), how many of its threads wait or
//! are about to (13 bits; at the most it stays there for ever), and whether other processes see
//! this memory (1 bit). A lock that no thread waits for has zeros, as a new one has.
//!
//! ```text
//!   begins to wait        (0,0,s) -> (me,1,s)     (me,n,s) -> (me,n+1,s)
//!   has waited            (me,1,s) -> (0,0,s)     (me,n,s) -> (me,n-1,s)
//!   finds another's       (p,n,0) -> (me,0,0), removes the traces -> (0,0,0)
//!   in shared memory      (p,n,0) -> (p,n,1)
//! ```
//!
//! # Invariants
//!
//! * I1: a thread leaves traces of a wait in a lock only while the stamp counts it: the stamp
//!   changes first at the beginning, and last at the end.
//! * I2: the threads that a stamp counts are of one process. Another process's thread polls.
//! * I3: in private memory, another process's stamp is an ancestor's, whose threads are not here
//!   (or was copied with the lock). One thread claims the lock (`(me,0,0)`) and removes the traces,
//!   while the others wait for it.
//! * I4: the last that leaves does so before it releases the lock, or gives it up; so the lock is
//!   still there.
//!
//! A signal handler that leaves a wait for good leaves the thread counted. That only makes a child
//! look.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::cell::Cell;

/// n: one waiter.
const ONE: u32 = 1;
/// n: all its bits.
const COUNT: u32 = (1 << 13) - 1;
/// p.
const WHOSE: u32 = ((1 << 18) - 1) << 13;
/// s.
const SHARED: u32 = 1 << 31;

const _: () = assert!(COUNT ^ WHOSE ^ SHARED == u32::MAX);

/// A process, in its place in a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose(pub(crate) u32);

impl Whose {
    /// The process with this number, of 16 bits, which was forked so many times.
    pub(crate) fn new(number: u32, forks: u32) -> Self {
        Self((number & 0xffff).max(1) << 13 | (forks & 3) << 29)
    }
}

pub(crate) trait Stamped {
    /// Whether no other process sees its memory.
    fn is_private(&self) -> bool;
    /// Removes the traces of threads that wait. No other thread uses the lock meanwhile.
    fn clean(&self);
    fn pause(&self);
}

/// See the [module documentation](self).
#[repr(transparent)]
pub(crate) struct Stamp<W>(pub(crate) W);

impl<W: Cell<u32>> Stamp<W> {
    /// Removes the traces that a process which this one was forked from has left, if there are any.
    #[inline]
    pub(crate) fn adopt(&self, me: Whose, lock: &impl Stamped) {
        // ORDERING: Acquire ← the Release in `adopt_slow`; a thread that finds the stamp clean
        // finds the lock clean.
        if self.0.load(Acquire) != 0 {
            self.adopt_slow(me, lock);
        }
    }

    #[cold]
    #[inline(never)]
    fn adopt_slow(&self, me: Whose, lock: &impl Stamped) {
        loop {
            // ORDERING: as in `adopt`.
            let seen = self.0.load(Acquire);
            match (seen & WHOSE, seen & COUNT) {
                (0, _) => return,
                (whose, 0) if whose == me.0 => lock.pause(),
                (whose, _) if whose == me.0 || seen & SHARED != 0 => return,
                _ if !lock.is_private() => {
                    let _ = self.0.compare_exchange(seen, seen | SHARED, Relaxed);
                }
                _ if self.0.compare_exchange(seen, me.0, Relaxed).is_ok() => {
                    lock.clean();
                    // ORDERING: Release → the Acquires above.
                    self.0.store(0, Release);
                    return;
                }
                _ => {}
            }
        }
    }

    /// Counts the calling thread, which is about to wait. Returns false if it has to poll, because
    /// threads of another process wait.
    pub(crate) fn enter(&self, me: Whose, lock: &impl Stamped) -> bool {
        loop {
            self.adopt(me, lock);
            let seen = self.0.load(Relaxed);
            let new = match (seen & WHOSE, seen & COUNT) {
                (0, _) => seen | me.0 | ONE,
                (whose, 0) if whose == me.0 => continue,
                (whose, COUNT) if whose == me.0 => return true,
                (whose, _) if whose == me.0 => seen + ONE,
                _ if seen & SHARED != 0 => return false,
                _ => continue,
            };
            // ORDERING: Acquire ← the Release in `leave`: the traces of another process are gone.
            if self.0.compare_exchange(seen, new, Acquire).is_ok() {
                return true;
            }
        }
    }

    /// Counts the calling thread no more, if it has been counted as one of this process.
    pub(crate) fn leave(&self, me: Whose) {
        loop {
            let seen = self.0.load(Relaxed);
            if seen & WHOSE != me.0 || [0, COUNT].contains(&(seen & COUNT)) {
                return;
            }
            let new = if seen & COUNT == ONE { seen & SHARED } else { seen - ONE };
            // ORDERING: Release → the Acquire in `enter`.
            if self.0.compare_exchange(seen, new, Release).is_ok() {
                return;
            }
        }
    }
}
