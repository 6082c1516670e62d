// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that stay libc's and are passed on.
//!
//! Read-write locks, semaphores and barriers are: the library only counts that a thread has to
//! wait, so that a user who asks why a program gains nothing from another mutex learns where it
//! waits instead.
//!
//! The call that does not wait finds out whether the other would: `tryrdlock`, `trywrlock`,
//! `sem_getvalue`. So a wait is counted in excess where the lock becomes free just then, which does
//! not matter. Waiting for a semaphore is a cancellation point, and so needs C frames
//! (`passed_on.c`). The others are no cancellation points in glibc.

use core::ffi::c_void;

use libc::{EBUSY, c_int, clockid_t, pthread_barrier_t, pthread_rwlock_t, sem_t, timespec};

use crate::counters::{self, Event};
use crate::{choice, clock, real};

/// Counts a wait, as one of this process even if it is a forked child that has used no lock yet.
fn count(event: Event) {
    choice::ensure_decided();
    counters::add(event);
}

/// Calls libc's function, after one that doesn't wait has failed. libc looks at all arguments
/// before it takes even a free lock, so a call that it will refuse is passed on at once.
macro_rules! waits_unless {
    ($($(#[$doc:meta])* $name:ident: $real:ident unless $try:ident ($($argument:ident: $type:ty),*) if $fine:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As for libc's function.
            pub(crate) unsafe extern "C-unwind" fn $name(lock: *mut pthread_rwlock_t, $($argument: $type),*) -> c_int {
                if !$fine($($argument),*) {
                    // SAFETY: the caller's.
                    return unsafe { real::$real(lock, $($argument),*) };
                }
                // SAFETY: the caller's.
                match unsafe { real::$try(lock) } {
                    EBUSY => {
                        count(Event::RwlockWait);
                        // SAFETY: the caller's.
                        unsafe { real::$real(lock, $($argument),*) }
                    }
                    taken_or_refused => taken_or_refused,
                }
            }
        )*
    };
}

/// Returns whether libc accepts this time, which is the program's.
fn is_time(at: *const timespec) -> bool {
    // SAFETY: the program passes a time to wait until.
    clock::is_valid(unsafe { &*at })
}

/// Returns whether libc accepts this time on this clock.
fn is_time_on(clock: clockid_t, at: *const timespec) -> bool {
    clock::is_supported(clock) && is_time(at)
}

waits_unless! {
    /// `pthread_rwlock_rdlock`.
    rdlock: rwlock_rdlock unless rwlock_tryrdlock () if || true;
    /// `pthread_rwlock_timedrdlock`.
    timedrdlock: rwlock_timedrdlock unless rwlock_tryrdlock (at: *const timespec) if is_time;
    /// `pthread_rwlock_clockrdlock`.
    clockrdlock: rwlock_clockrdlock unless rwlock_tryrdlock (clock: clockid_t, at: *const timespec) if is_time_on;
    /// `pthread_rwlock_wrlock`.
    wrlock: rwlock_wrlock unless rwlock_trywrlock () if || true;
    /// `pthread_rwlock_timedwrlock`.
    timedwrlock: rwlock_timedwrlock unless rwlock_trywrlock (at: *const timespec) if is_time;
    /// `pthread_rwlock_clockwrlock`.
    clockwrlock: rwlock_clockwrlock unless rwlock_trywrlock (clock: clockid_t, at: *const timespec) if is_time_on;
}

/// `pthread_barrier_wait`: every thread waits except the last, and libc tells one of all threads
/// that it was the serial one. That need not be the last, but there is exactly one per round too.
///
/// # Safety
/// As for libc's function.
pub(crate) unsafe extern "C-unwind" fn barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's.
    let result = unsafe { real::barrier_wait(barrier) };
    if result == 0 {
        count(Event::BarrierWait);
    }
    result
}

/// Counts a wait if the semaphore is at zero. Returns libc's function: the `which`th of `sem_wait`,
/// `sem_timedwait` and `sem_clockwait`.
///
/// # Safety
/// For passed_on.c: `semaphore` is the program's, and `which` below 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn overlock_sem_enter(semaphore: *mut sem_t, which: usize) -> *mut c_void {
    let mut value = 0;
    // SAFETY: the program's semaphore, and a variable of ours.
    if unsafe { real::sem_getvalue(semaphore, &raw mut value) } == 0 && value <= 0 {
        count(Event::SemaphoreWait);
    }
    real::sem_waits()[which]()
}
