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

/// Defines calls by those of pthread.
macro_rules! calls {
    ($($name:ident ($($argument:ident: $type:ty),*) $call:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's.
            overlock_c11_result(unsafe { $call })
        }
    )*};
}

// The two that destroy return nothing in C, so what they return here is lost.
calls! {
    mtx_lock(mutex: *mut pthread_mutex_t) calls::lock(Mutex::new(mutex));
    mtx_trylock(mutex: *mut pthread_mutex_t) calls::try_lock(Mutex::new(mutex));
    mtx_timedlock(mutex: *mut pthread_mutex_t, at: *const timespec)
        calls::lock_until(Mutex::new(mutex), CLOCK_REALTIME, &*at);
    mtx_unlock(mutex: *mut pthread_mutex_t) calls::unlock(Mutex::new(mutex));
    mtx_destroy(mutex: *mut pthread_mutex_t) calls::destroy(Mutex::new(mutex));
    cnd_signal(cond: *mut pthread_cond_t) cond::signal(cond);
    cnd_broadcast(cond: *mut pthread_cond_t) cond::broadcast(cond);
    cnd_destroy(cond: *mut pthread_cond_t) cond::destroy(cond);
}
