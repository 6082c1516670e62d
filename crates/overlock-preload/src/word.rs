// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock word of a mutex, under whichever algorithm this process has chosen.
//!
//! The fast path is the mode's byte, a predictable comparison, and the chosen lock's own inlined fast path. Everything
//! else (the first lock of the process, contention, forked children) is out of line.
//!
//! # After a fork
//!
//! A mutex that the forking thread holds may have other threads queued on it. The child has the word with their traces, but
//! not the threads: handing the lock to the next in line would hand it to nobody, and the child's handlers that unlock what
//! they locked before the fork (the pattern of `pthread_atfork`) would leave it locked for ever. So:
//!
//! * I1: a mutex carries in `stamp` the number of forks behind the process that last cleaned its word; 0 in a new one.
//! * I2: in a forked child, nobody queues on a word whose stamp is not the process's own: a thread that finds it taken asks again
//!   and again, with sleeps between.
//! * I3: so the holder of such a word may overwrite it. It does, with the word of a lock that is held and has no waiters, and then
//!   stamps it: on taking it, or, if it was taken before the fork, on releasing it ([`adopt`]).
//!
//! What another thread held at the fork stays locked in the child, as with every implementation of POSIX.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::platform::Threads;
use overlock::{ConstLock, Hybrid, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

use crate::choice::{self, FORKED};
use crate::clock::Poll;
use crate::counters::{self, Event, Preload};
use crate::mutex::Mutex;

/// A lock that lives in one 32-bit word and can give up at a deadline.
trait Algorithm: ConstLock {
    /// Takes the lock unless `CLOCK_MONOTONIC` reaches `deadline_ns` first. Returns whether it did.
    fn lock_until(&self, deadline_ns: u64) -> bool;
}

macro_rules! can_give_up {
    ($($lock:ident)*) => {
        $(
            impl Algorithm for $lock<Threads, Preload> {
                fn lock_until(&self, deadline_ns: u64) -> bool {
                    self.try_lock_until(deadline_ns)
                }
            }
        )*
    };
}

can_give_up!(Hybrid Queued TestAndSet);

impl Algorithm for Ticket<Threads, Preload> {
    /// A ticket once drawn must be served, so this draws none and asks for the lock from time to time instead. Such a thread
    /// has no place in line: while others always wait it may never find the lock free.
    fn lock_until(&self, deadline_ns: u64) -> bool {
        let mut poll = Poll::new();
        loop {
            if self.try_lock() {
                return true;
            }
            if !poll.sleep_until(deadline_ns) {
                return false;
            }
        }
    }
}

/// Evaluates an expression for the algorithm that `$mode` names, and another for a mode that is undecided or forked.
macro_rules! with_algorithm {
    ($mode:expr, $lock:ident => $then:expr, else $otherwise:expr) => {
        match $mode {
            choice::HYBRID => {
                type $lock = Hybrid<Threads, Preload>;
                $then
            }
            choice::TICKET => {
                type $lock = Ticket<Threads, Preload>;
                $then
            }
            choice::QUEUED => {
                type $lock = Queued<Threads, Preload>;
                $then
            }
            choice::TEST_AND_SET => {
                type $lock = TestAndSet<Threads, Preload>;
                $then
            }
            _ => $otherwise,
        }
    };
}

/// Views the mutex's word as a lock.
#[inline(always)]
fn lock_of<L: Algorithm>(mutex: &Mutex) -> &L {
    const {
        assert!(size_of::<L>() == size_of::<u32>() && align_of::<L>() <= align_of::<u32>());
    }
    // SAFETY: L has the size of the word and needs no greater alignment; it consists of atomic words, for which every bit pattern is
    // valid; and for as long as the process lives only this one L is used on the word, because the mode is decided once.
    unsafe { &*(&raw const mutex.word).cast::<L>() }
}

/// Takes the lock.
#[inline(always)]
pub(crate) fn lock(mutex: &Mutex) {
    with_algorithm!(choice::mode(), L => lock_decided::<L>(mutex), else lock_rarely(mutex));
}

/// Takes the lock if it is free.
#[inline(always)]
pub(crate) fn try_lock(mutex: &Mutex) -> bool {
    with_algorithm!(choice::mode(), L => lock_of::<L>(mutex).try_lock(), else try_lock_rarely(mutex))
}

/// Takes the lock unless `CLOCK_MONOTONIC` reaches `deadline_ns` first.
pub(crate) fn lock_until(mutex: &Mutex, deadline_ns: u64) -> bool {
    if choice::mode() & FORKED != 0 && is_foreign(mutex) {
        let mut poll = Poll::new();
        while is_foreign(mutex) {
            if try_lock(mutex) {
                return true;
            }
            if !poll.sleep_until(deadline_ns) {
                return false;
            }
        }
    }
    with_algorithm!(
        choice::decided(),
        L => lock_of::<L>(mutex).lock_until(deadline_ns),
        else unreachable!("the mode is decided")
    )
}

/// Releases the lock.
///
/// # Safety
/// The lock is held, and the caller is who may release it.
#[inline(always)]
pub(crate) unsafe fn unlock(mutex: &Mutex) {
    with_algorithm!(
        choice::mode(),
        // SAFETY: passed on.
        L => unsafe { lock_of::<L>(mutex).unlock() },
        // SAFETY: passed on.
        else unsafe { unlock_rarely(mutex) }
    );
}

#[inline(always)]
fn lock_decided<L: Algorithm>(mutex: &Mutex) {
    if !lock_of::<L>(mutex).try_lock() {
        lock_contended::<L>(mutex);
    }
}

#[cold]
#[inline(never)]
fn lock_contended<L: Algorithm>(mutex: &Mutex) {
    counters::add(Event::MutexContended);
    lock_of::<L>(mutex).lock();
}

#[cold]
#[inline(never)]
fn lock_rarely(mutex: &Mutex) {
    with_algorithm!(
        choice::decided(),
        L => if choice::mode() & FORKED == 0 {
            lock_decided::<L>(mutex);
        } else {
            lock_forked::<L>(mutex);
        },
        else unreachable!("the mode is decided")
    );
}

#[cold]
#[inline(never)]
fn try_lock_rarely(mutex: &Mutex) -> bool {
    with_algorithm!(
        choice::decided(),
        L => {
            let taken = lock_of::<L>(mutex).try_lock();
            if taken && is_foreign(mutex) {
                adopt::<L>(mutex);
            }
            taken
        },
        else unreachable!("the mode is decided")
    )
}

/// # Safety
/// As for [`unlock`].
#[cold]
#[inline(never)]
unsafe fn unlock_rarely(mutex: &Mutex) {
    with_algorithm!(
        choice::decided(),
        L => {
            if is_foreign(mutex) {
                adopt::<L>(mutex);
            }
            // SAFETY: passed on; a word that was adopted is held as well.
            unsafe { lock_of::<L>(mutex).unlock() }
        },
        else unreachable!("the mode is decided")
    );
}

fn lock_forked<L: Algorithm>(mutex: &Mutex) {
    let mut poll = Poll::new();
    while !lock_of::<L>(mutex).try_lock() {
        if !is_foreign(mutex) {
            return lock_contended::<L>(mutex);
        }
        poll.sleep();
    }
    if is_foreign(mutex) {
        adopt::<L>(mutex);
    }
}

/// Whether the word may hold traces of threads that this process does not have.
fn is_foreign(mutex: &Mutex) -> bool {
    // ORDERING: Acquire ← the Release in `adopt`; who sees the stamp and queues, queues on the cleaned word.
    mutex.stamp.load(Acquire) != choice::generation()
}

/// Cleans a held word of the traces of vanished threads (I3). The caller holds the lock.
fn adopt<L: Algorithm>(mutex: &Mutex) {
    let clean = L::NEW;
    clean.lock();
    // SAFETY: L is one atomic word of 32 bits, and `clean` belongs to this thread.
    let held = unsafe { (&raw const clean).cast::<AtomicU32>().as_ref_unchecked() }.load(Relaxed);
    mutex.word.store(held, Relaxed);
    // ORDERING: Release → the Acquire in `is_foreign`; publishes the cleaned word.
    mutex.stamp.store(choice::generation(), Release);
}
