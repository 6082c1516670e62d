//! Calls that stay libc's and are passed on.
//!
//! Semaphores are: the library only counts that a thread has to wait, so that a user
//! who asks why a program gains nothing from another mutex learns where it waits instead.
//!
//! `sem_getvalue` finds out whether a thread would wait. So a wait is counted in excess where the
//! semaphore is posted just then, which does not matter. Waiting for a semaphore is a cancellation
//! point, and so needs C frames (`passed_on.c`).
//!
//! `pthread_once` and C11's `call_once` are not even counted: a thread waits there at most once in
//! the life of the object, and before glibc 2.34 libraries take the address of `pthread_once` for a
//! sign that the program has threads.

use core::ffi::c_void;

use libc::sem_t;

use crate::counters::{self, Event};
use crate::{choice, real};

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
        // As one of this process even if it is a forked child that has used no lock yet.
        choice::ensure_decided();
        counters::add(Event::SemaphoreWait);
    }
    real::SEM_WAITS[which].address()
}
