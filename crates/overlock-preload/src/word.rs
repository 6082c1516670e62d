// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock word of a mutex, under whichever algorithm this process has chosen.
//!
//! For each algorithm there are two tables of functions ([`Operations`]): for a process that was
//! executed, and for a child that was forked. The functions of the first are the lock's own inlined
//! fast path, and a call for the rest.
//!
//! # After a fork
//!
//! A mutex that the forking thread holds may have other threads queued on it. The child has the
//! word with their traces, but not the threads: handing the lock to the next in line would hand it
//! to nobody, and the child's handlers that unlock what they locked before the fork (the pattern of
//! `pthread_atfork`) would leave it locked for ever. So:
//!
//! * I1: a mutex carries in `stamp` the number of forks behind the process that last cleaned its
//!   word; 0 in a new one.
//! * I2: in a forked child, nobody queues on a word whose stamp is not the process's own: a thread
//!   that finds it taken asks again and again, with sleeps between.
//! * I3: so the holder of such a word may overwrite it. It does, with the word of a lock that is
//!   held and has no waiters, and then stamps it: on taking it, or, if it was taken before the
//!   fork, on releasing it ([`adopt`]).
//!
//! What another thread held at the fork stays locked in the child, as with every implementation of
//! POSIX.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU16, AtomicU32};

use libc::{EBUSY, ETIMEDOUT, c_int};
use overlock::platform::Threads;
use overlock::{ConstLock, Hybrid, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

use crate::choice::{self, Operations};
use crate::clock::Poll;
use crate::counters::{self, Event, Preload};
use crate::mutex::Mutex;

/// The tables of all locks; the first is the default.
pub(crate) static TABLES: [&Operations; 4] = [
    &Hybrid::<Threads, Preload>::OPERATIONS,
    &Ticket::<Threads, Preload>::OPERATIONS,
    &Queued::<Threads, Preload>::OPERATIONS,
    &TestAndSet::<Threads, Preload>::OPERATIONS,
];

/// A lock that lives in one 32-bit word and can give up at a deadline.
trait Algorithm: ConstLock + Sized + 'static {
    const NAME: &str;

    /// Takes the lock unless `CLOCK_MONOTONIC` reaches `deadline_ns` first. Returns whether it did.
    fn lock_until(&self, deadline_ns: u64) -> bool;

    /// Makes a held lock one that is held and has no waiters. Nobody is queueing; others may try to
    /// take it meanwhile.
    fn forget_waiters(&self) {
        let clean = Self::NEW;
        clean.lock();
        word_of(self).store(word_of(&clean).load(Relaxed), Relaxed);
    }

    const OPERATIONS: Operations = Operations {
        name: Self::NAME,
        lock: lock::<Self>,
        try_lock: try_lock::<Self>,
        lock_until: lock_until::<Self>,
        unlock: unlock::<Self>,
        in_child: Some(&Self::IN_CHILD),
    };

    const IN_CHILD: Operations = Operations {
        name: Self::NAME,
        lock: lock_in_child::<Self>,
        try_lock: try_lock_in_child::<Self>,
        lock_until: lock_until_in_child::<Self>,
        unlock: unlock_in_child::<Self>,
        in_child: None,
    };
}

/// Names the locks that can leave their queue.
macro_rules! can_give_up {
    ($($lock:ident $name:literal;)*) => {
        $(
            impl Algorithm for $lock<Threads, Preload> {
                const NAME: &str = $name;

                fn lock_until(&self, deadline_ns: u64) -> bool {
                    self.try_lock_until(deadline_ns)
                }
            }
        )*
    };
}

can_give_up! {
    Hybrid "hybrid";
    Queued "queued";
    TestAndSet "test-and-set";
}

impl Algorithm for Ticket<Threads, Preload> {
    const NAME: &str = "ticket";

    /// A ticket once drawn must be served, so this draws none and asks for the lock from time to
    /// time instead. Such a thread has no place in line: while others always wait it may never find
    /// the lock free.
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

    /// The next ticket to draw becomes the one after that which is served.
    fn forget_waiters(&self) {
        // SAFETY: the lock is two atomic words of 16 bits: the ticket served, with a flag in bit 0,
        // and the next one to draw.
        let [head, tail] = unsafe { &*core::ptr::from_ref(self).cast::<[AtomicU16; 2]>() };
        tail.store((head.load(Relaxed) & !1).wrapping_add(2), Relaxed);
    }
}

/// Views a lock as the one word it is. Not for [`Ticket`], which consists of two.
fn word_of<L: Algorithm>(lock: &L) -> &AtomicU32 {
    // SAFETY: L has the size of a word, and it is aligned like the word of a mutex or like L
    // itself, which holds one. L accesses it by atomic operations on all of it.
    unsafe { &*core::ptr::from_ref(lock).cast::<AtomicU32>() }
}

/// Views the mutex's word as a lock.
#[inline(always)]
fn lock_of<L: Algorithm>(mutex: &Mutex) -> &L {
    const {
        assert!(size_of::<L>() == size_of::<u32>() && align_of::<L>() <= align_of::<u32>());
    }
    // SAFETY: L has the size of the word and needs no greater alignment; it consists of atomic
    // words, for which every bit pattern is valid; and for as long as the process lives only this
    // one L is used on the word, because the choice is made once.
    unsafe { &*(&raw const mutex.word).cast::<L>() }
}

extern "C" fn lock<L: Algorithm>(mutex: &Mutex) -> c_int {
    if lock_of::<L>(mutex).try_lock() { 0 } else { lock_contended::<L>(mutex) }
}

#[cold]
#[inline(never)]
extern "C" fn lock_contended<L: Algorithm>(mutex: &Mutex) -> c_int {
    counters::add(Event::MutexContended);
    lock_of::<L>(mutex).lock();
    0
}

extern "C" fn try_lock<L: Algorithm>(mutex: &Mutex) -> c_int {
    if lock_of::<L>(mutex).try_lock() { 0 } else { EBUSY }
}

extern "C" fn lock_until<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    if lock_of::<L>(mutex).lock_until(deadline_ns) { 0 } else { ETIMEDOUT }
}

/// # Safety
/// As for [`Operations::unlock`].
unsafe extern "C" fn unlock<L: Algorithm>(mutex: &Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe { lock_of::<L>(mutex).unlock() };
    0
}

extern "C" fn lock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    let mut poll = Poll::new();
    while try_lock_in_child::<L>(mutex) != 0 {
        if !is_foreign(mutex) {
            return lock_contended::<L>(mutex);
        }
        poll.sleep();
    }
    0
}

extern "C" fn try_lock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    let error = try_lock::<L>(mutex);
    if error == 0 {
        adopt::<L>(mutex);
    }
    error
}

extern "C" fn lock_until_in_child<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    let mut poll = Poll::new();
    while try_lock_in_child::<L>(mutex) != 0 {
        if !is_foreign(mutex) {
            return lock_until::<L>(mutex, deadline_ns);
        }
        if !poll.sleep_until(deadline_ns) {
            return ETIMEDOUT;
        }
    }
    0
}

/// # Safety
/// As for [`Operations::unlock`].
unsafe extern "C" fn unlock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    adopt::<L>(mutex);
    // SAFETY: the caller's; a word that was adopted is held as before.
    unsafe { unlock::<L>(mutex) }
}

/// Whether the word may hold traces of threads that this process does not have.
fn is_foreign(mutex: &Mutex) -> bool {
    // ORDERING: Acquire ← the Release in `adopt`; who sees the stamp and queues, queues on the
    // cleaned word.
    mutex.stamp.load(Acquire) != choice::generation()
}

/// Cleans a word of the traces of vanished threads, if it is foreign (I3). The caller holds the
/// lock.
fn adopt<L: Algorithm>(mutex: &Mutex) {
    if !is_foreign(mutex) {
        return;
    }
    lock_of::<L>(mutex).forget_waiters();
    // ORDERING: Release → the Acquire in `is_foreign`; publishes the cleaned word.
    mutex.stamp.store(choice::generation(), Release);
}
