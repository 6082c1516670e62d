//! libc's own mutexes: the table for `OVERLOCK_LOCK=none`.
//!
//! The library is loaded, starts and intercepts calls, but replaces nothing. The time that a
//! program then loses is the price of preloading, not of a lock.

use libc::{EBUSY, c_int, timespec};

use crate::counters::{self, Event};
use crate::mutex::Mutex;
use crate::operations::Operations;
use crate::{longest, real};

/// See the [module documentation](self).
pub(crate) const OPERATIONS: Operations = {
    /// Tries first, so that the counters show calls that wait and the longest wait; libc itself
    /// spins or sleeps.
    extern "C-unwind" fn lock(mutex: &Mutex) -> c_int {
        match try_lock(mutex) {
            EBUSY => {
                counters::add(Event::MutexContended);
                longest::enter();
                longest::halts();
                // SAFETY: the program's own call, passed on.
                let error = unsafe { real::mutex_lock(mutex.as_ptr()) };
                longest::leave();
                error
            }
            taken_or_broken => taken_or_broken,
        }
    }
    extern "C" fn try_lock(mutex: &Mutex) -> c_int {
        // SAFETY: the program's own call, passed on.
        unsafe { real::mutex_trylock(mutex.as_ptr()) }
    }
    /// Never called: no mutex is of our kinds, so calls with a deadline are passed on earlier.
    extern "C-unwind" fn lock_until(mutex: &Mutex, deadline_ns: u64) -> c_int {
        let (tv_sec, tv_nsec) = (deadline_ns / 1_000_000_000, deadline_ns % 1_000_000_000);
        let at = timespec { tv_sec: tv_sec as i64, tv_nsec: tv_nsec as i64 };
        // SAFETY: the program's own mutex, and a time of ours.
        unsafe { real::mutex_clocklock(mutex.as_ptr(), libc::CLOCK_MONOTONIC, &raw const at) }
    }
    unsafe extern "C" fn unlock(mutex: &Mutex) -> c_int {
        // SAFETY: the program's own call, passed on.
        unsafe { real::mutex_unlock(mutex.as_ptr()) }
    }
    Operations { lock, try_lock, lock_until, unlock }
};
