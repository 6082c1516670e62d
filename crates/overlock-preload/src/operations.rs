//! What a lock is to the mutexes: a table of functions.

use libc::c_int;

use crate::mutex::Mutex;

/// The operations on the lock word of a mutex. The functions return 0 or an error number. A thread
/// that is cancelled while it waits at the gate is unwound through them.
pub(crate) struct Operations {
    pub(crate) lock: extern "C-unwind" fn(&Mutex) -> c_int,
    /// Takes the lock if it is free, or returns `EBUSY`.
    pub(crate) try_lock: extern "C" fn(&Mutex) -> c_int,
    /// Takes the lock, or returns `ETIMEDOUT` once `CLOCK_MONOTONIC` has reached this time in
    /// nanoseconds.
    pub(crate) lock_until: extern "C-unwind" fn(&Mutex, u64) -> c_int,
    /// Releases the lock. The caller holds it, or is entitled to release it for the holder.
    pub(crate) unlock: unsafe extern "C" fn(&Mutex) -> c_int,
}
