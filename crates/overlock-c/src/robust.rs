// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ol_robust_t`: a mutex in memory that processes share, which outlives its holder.
//!
//! Only the kernel sees every end of a thread. It then looks through the list of what the thread
//! holds, of which there is one a thread, and it is libc's. So the state is libc's robust mutex,
//! and the wait is Overlock's: a waiter first spins, as for [`SharedLock`](crate::SharedLock),
//! where libc's goes to sleep at once.
//!
//! # Life of a holder's death
//!
//! The kernel marks the mutex and wakes a waiter. Whoever takes it next is told (`EOWNERDEAD`), and
//! holds it. Unless it calls [`ol_robust_consistent`] before its release, what the mutex protects
//! is given up, and every later acquisition fails (`ENOTRECOVERABLE`), those under way too.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use libc::{EBUSY, pthread_mutex_t, timespec};
use overlock::counters::{Class, Event};
use overlock::platform::{Platform, Threads};

use crate::counters::CLocks;
use crate::deadline;

/// `ol_robust_t`: the same size on all machines.
#[repr(C, align(8))]
pub struct Robust {
    mutex: pthread_mutex_t,
    rest: [u8; 48 - size_of::<pthread_mutex_t>()],
}

const _: () = assert!(size_of::<Robust>() == 48 && align_of::<Robust>() == 8);

/// How long a waiter spins before it sleeps, in nanoseconds: as for a test-and-set lock, less than a
/// sleep and a wake-up cost.
const SPIN_NS: u64 = 2_000;

/// The most pauses between two tries, each of which takes the cache line from the holder.
const BACKOFF_MAX: u32 = 32;

const NS_PER_S: u64 = 1_000_000_000;

/// `PTHREAD_MUTEX_ROBUST`, as Linux's C libraries define it.
const ROBUST: c_int = 1;

// Not in the crate libc.
unsafe extern "C" {
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: libc::clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// Makes a robust mutex: `ol_robust_init`. Returns 0, or libc's error number.
///
/// # Safety
/// `lock` is valid to write to, and no thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_init(lock: *mut Robust) -> c_int {
    let mut attributes = MaybeUninit::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: writable memory.
    let mut error = unsafe { libc::pthread_mutexattr_init(attributes) };
    if error == 0 {
        // SAFETY: initialised above.
        error =
            unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) };
    }
    if error == 0 {
        // SAFETY: initialised above.
        error = unsafe { libc::pthread_mutexattr_setrobust(attributes, ROBUST) };
    }
    if error == 0 {
        // SAFETY: the caller's promise; the mutex is at the beginning.
        error = unsafe { libc::pthread_mutex_init(lock.cast(), attributes) };
    }
    error
}

/// Takes the mutex without waiting, or returns `EBUSY` or what the others return.
///
/// # Safety
/// `lock` points to a mutex that [`ol_robust_init`] has made, and only these functions write to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_trylock(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_mutex_trylock(lock.cast()) }
}

/// Spins for the mutex, then waits for it by `wait`.
///
/// # Safety
/// As for [`ol_robust_trylock`].
unsafe fn take(lock: *mut Robust, wait: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let attempt = || unsafe { ol_robust_trylock(lock) };
    let mut error = attempt();
    if error != EBUSY {
        return error;
    }
    CLocks::count(Event::LockSlowpath);
    let until_ns = Threads::now_ns() + SPIN_NS;
    let mut pauses = 1;
    while Threads::now_ns() < until_ns {
        (0..pauses).for_each(|_| Threads::relax());
        pauses = (pauses * 2).min(BACKOFF_MAX);
        error = attempt();
        if error != EBUSY {
            return error;
        }
    }
    CLocks::count(Event::PvWaitNode);
    wait()
}

/// Waits for the mutex and takes it. Returns 0, `EOWNERDEAD` or `ENOTRECOVERABLE`.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_lock(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    let wait = || unsafe { libc::pthread_mutex_lock(lock.cast()) };
    // SAFETY: the caller's promise.
    unsafe { take(lock, wait) }
}

/// Waits for the mutex until `CLOCK_MONOTONIC` reads `s` seconds and `ns` nanoseconds. Returns what
/// [`ol_robust_lock`] does, `ETIMEDOUT`, or `EINVAL` if that is not a valid time.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_take_until(lock: *mut Robust, s: i64, ns: i64) -> c_int {
    let wait = || match deadline::on_kernels_clock(s, ns) {
        Ok(at_ns) => {
            let at = timespec {
                tv_sec: (at_ns / NS_PER_S).try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: (at_ns % NS_PER_S) as _,
            };
            // SAFETY: the caller's promise, and a time that exists.
            unsafe { pthread_mutex_clocklock(lock.cast(), libc::CLOCK_MONOTONIC, &raw const at) }
        }
        Err(error) => error,
    };
    // SAFETY: the caller's promise.
    unsafe { take(lock, wait) }
}

/// Says that what the mutex protects is in order again. Returns 0, or `EINVAL` if no holder has
/// died.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_consistent(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_mutex_consistent(lock.cast()) }
}

/// Releases the mutex. Returns 0, or `EPERM` if the caller does not hold it.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_unlock(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_mutex_unlock(lock.cast()) }
}
