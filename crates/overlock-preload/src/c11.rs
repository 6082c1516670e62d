//! C11's `mtx_*` and `cnd_*`: glibc's are its pthread calls by other names, with other results.
//!
//! A `mtx_t` is a `pthread_mutex_t` of libc's making: normal, or recursive if the program asked for
//! that; `mtx_plain` and `mtx_timed` make the same object, and every mutex has a timed lock. A
//! `cnd_t` is a `pthread_cond_t` on `CLOCK_REALTIME`, which is C's `TIME_UTC`. So initialisation
//! stays libc's, and what holds for pthread's objects holds for these: forks, jumps, cancellation
//! (`cnd_wait` and `cnd_timedwait` are cancellation points in glibc, too), and counters.
//!
//! The two waits are in block.c.

use libc::{CLOCK_REALTIME, EBUSY, ENOMEM, ETIMEDOUT, c_int, timespec};
use libc::{pthread_cond_t, pthread_mutex_t};

use crate::cond;
use crate::mutex::Mutex;
use crate::mutex::calls;

/// `thrd_success` to `thrd_timedout`, as glibc numbers them.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// For block.c, too: what C11's calls return in place of an error number.
#[unsafe(no_mangle)]
extern "C" fn overlock_c11_result(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        EBUSY => BUSY,
        ENOMEM => NO_MEMORY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// `mtx_lock`.
pub(crate) unsafe extern "C-unwind" fn mtx_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's.
    overlock_c11_result(calls::lock(unsafe { Mutex::new(mutex) }))
}

/// `mtx_trylock`.
pub(crate) unsafe extern "C-unwind" fn mtx_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's.
    overlock_c11_result(calls::try_lock(unsafe { Mutex::new(mutex) }))
}

/// `mtx_timedlock`: until `TIME_UTC` has reached a time.
pub(crate) unsafe extern "C-unwind" fn mtx_timedlock(
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the program's.
    let at = unsafe { &*at };
    // SAFETY: the program's.
    overlock_c11_result(calls::lock_until(unsafe { Mutex::new(mutex) }, CLOCK_REALTIME, at))
}

/// `mtx_unlock`.
pub(crate) unsafe extern "C-unwind" fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's.
    overlock_c11_result(calls::unlock(unsafe { Mutex::new(mutex) }))
}

/// `mtx_destroy`.
pub(crate) unsafe extern "C-unwind" fn mtx_destroy(mutex: *mut pthread_mutex_t) {
    // SAFETY: the program's.
    calls::destroy(unsafe { Mutex::new(mutex) });
}

/// `cnd_signal`.
pub(crate) unsafe extern "C-unwind" fn cnd_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's.
    overlock_c11_result(unsafe { cond::signal(cond) })
}

/// `cnd_broadcast`.
pub(crate) unsafe extern "C-unwind" fn cnd_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's.
    overlock_c11_result(unsafe { cond::broadcast(cond) })
}

/// `cnd_destroy`.
pub(crate) unsafe extern "C-unwind" fn cnd_destroy(cond: *mut pthread_cond_t) {
    // SAFETY: the program's.
    unsafe { cond::destroy(cond) };
}
