//! `pthread_spinlock_t`: a test-and-set lock that knows when to stop spinning.
//!
//! # State
//!
//! The type is one `int`, all of it the lock: there is no room to record whether the lock is shared
//! between processes. So one algorithm serves both, and its word is libc's own, so that a process
//! under Overlock and one without it can share a spin lock: [`FREE`] is what libc's
//! `pthread_spin_init` stores. Initialisation and destruction stay libc's.
//!
//! # Waiting
//!
//! A waiter reads the word until the lock is free and then tries to take it: it first spins, then
//! yields its CPU, and then sleeps for growing times. The sleep lets the holder run even if it has
//! a lower real-time priority, where a yield would return at once, for ever. `OVERLOCK_LOCK` does
//! not change any of this.

use core::hint::spin_loop;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::{EBUSY, c_int};

use crate::clock::Poll;
use crate::counters::{self, Event};
use crate::yields::yield_once;
use crate::{choice, real};

/// The word of libc's spin lock when it is free.
const FREE: i32 = if cfg!(target_arch = "x86_64") { 1 } else { 0 };

/// The word when the lock is taken. (On x86-64 libc's own waiters count further down: anything but
/// [`FREE`] is taken.)
const TAKEN: i32 = 1 - FREE;

/// How often a waiter loads the word before it yields: some microseconds, a few short critical
/// sections. Longer spinning would only burn a CPU that a preempted holder may need.
const SPINS: u32 = 256;

/// How often a waiter yields before it sleeps. If others can run, each yield lasts as long as their
/// time slice.
const YIELDS: u32 = 8;

/// `pthread_spin_lock`.
#[inline(always)]
pub(crate) fn lock(word: &AtomicI32) -> c_int {
    if try_lock(word) != 0 {
        lock_slow(word);
    }
    0
}

/// `pthread_spin_trylock`.
#[inline(always)]
pub(crate) fn try_lock(word: &AtomicI32) -> c_int {
    // ORDERING: Acquire ← the Release of `unlock`; this critical section sees the writes of the
    // last.
    match word.compare_exchange(FREE, TAKEN, Acquire, Relaxed) {
        Ok(_) => 0,
        Err(_) => EBUSY,
    }
}

/// `pthread_spin_unlock`.
#[inline(always)]
pub(crate) fn unlock(word: &AtomicI32) -> c_int {
    // ORDERING: Release → the Acquire of `try_lock`; publishes the critical section.
    word.store(FREE, Release);
    0
}

#[cold]
#[inline(never)]
fn lock_slow(word: &AtomicI32) {
    let is_libcs = choice::is_none();
    counters::add(Event::SpinContended);
    if is_libcs {
        // SAFETY: the program's own call, passed on, which can't fail.
        unsafe { real::spin_lock(word.as_ptr()) };
        return;
    }
    let mut poll = Poll::new();
    let mut rounds = 0;
    loop {
        for _ in 0..SPINS {
            // Relaxed: only a hint that it is worth trying.
            if word.load(Relaxed) == FREE && try_lock(word) == 0 {
                return;
            }
            spin_loop();
        }
        rounds += 1;
        if rounds > YIELDS || !yield_once() {
            counters::add(Event::SpinSlept);
            poll.sleep();
        }
    }
}
