//! `ol_rwlock_t` and `ol_cond_t`: the functions behind those of the header.

use core::ffi::c_int;

use libc::{CLOCK_MONOTONIC, EBUSY, ETIMEDOUT, clockid_t};
use overlock::platform::{Platform, Threads};
use overlock::{RawCondvar, RawLock, RawRwLock, RawTimedLock};

use crate::counters::CLocks;
use crate::deadline;

type Mutex = overlock::Hybrid<Threads, CLocks>;
pub type RwLock = RawRwLock<Threads, CLocks>;
pub type Cond = RawCondvar<Threads, CLocks>;

const _: () = assert!(size_of::<RwLock>() == 4 && align_of::<RwLock>() == 4);
const _: () = assert!(size_of::<Cond>() == 36 && align_of::<Cond>() == 4);

/// Waits for a lock by `wait`, which returns whether it has it, until `clock` has reached a time.
fn timed(clock: clockid_t, s: i64, ns: i64, wait: impl Fn(u64) -> bool) -> c_int {
    loop {
        match deadline::on_clock(clock, s, ns) {
            Ok(at) if wait(at) => return 0,
            Ok(_) if has_come(clock, s, ns) => return ETIMEDOUT,
            // The clock was set back meanwhile.
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

/// Whether a clock that can be set has reached a valid time.
fn has_come(clock: clockid_t, s: i64, ns: i64) -> bool {
    clock == CLOCK_MONOTONIC
        || deadline::on_clock(clock, s, ns).is_ok_and(|at| at <= Threads::now_ns())
}

/// The verbs of one way to hold an `ol_rwlock_t`.
macro_rules! verbs {
    ($($take:ident = $lock:ident, $try_take:ident = $try_lock:ident,
       $timed_take:ident = $until:ident, $leave:ident = $unlock:ident;)*) => {$(
        /// Waits for the lock and takes it.
        ///
        /// # Safety
        /// `lock` points to a live lock, and only the locks' functions write to it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take(lock: *const RwLock) {
            // SAFETY: the caller's promise.
            unsafe { &*lock }.$lock();
        }

        /// Takes the lock and returns 0 if that is possible without waiting, or returns `EBUSY`.
        ///
        /// # Safety
        /// As for waiting.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $try_take(lock: *const RwLock) -> c_int {
            // SAFETY: the caller's promise.
            if unsafe { &*lock }.$try_lock() { 0 } else { EBUSY }
        }

        /// Waits for the lock until a clock has reached a time. Returns 0, `ETIMEDOUT`, or `EINVAL`
        /// if the lock can't be taken at once, and this is no such time or no such clock.
        ///
        /// # Safety
        /// As for waiting.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timed_take(
            lock: *const RwLock,
            clock: clockid_t,
            s: i64,
            ns: i64,
        ) -> c_int {
            // SAFETY: the caller's promise.
            let lock = unsafe { &*lock };
            if lock.$try_lock() { 0 } else { timed(clock, s, ns, |at| lock.$until(at)) }
        }

        /// Releases the lock, which is held this way.
        ///
        /// # Safety
        /// As for waiting, and the caller holds the lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $leave(lock: *const RwLock) {
            // SAFETY: the caller's promise.
            unsafe { (*lock).$unlock() };
        }
    )*};
}

verbs! {
    ol_rwlock_read = lock_shared, ol_rwlock_try_read = try_lock_shared,
    ol_rwlock_timed_read = try_lock_shared_until, ol_rwlock_leave_read = unlock_shared;
    ol_rwlock_write = lock, ol_rwlock_try_write = try_lock,
    ol_rwlock_timed_write = try_lock_until, ol_rwlock_leave_write = unlock;
}

/// Takes the lock for reading, past writers that wait.
///
/// # Safety
/// `lock` points to a live lock, and only the locks' functions write to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_rwlock_read_again(lock: *const RwLock) {
    // SAFETY: the caller's promise.
    unsafe { &*lock }.lock_shared_recursive();
}

/// Releases `mutex`, waits until notified, and takes it again.
///
/// # Safety
/// Both point to live objects that only these functions write to, and the caller holds the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_cond_sleep(cond: *const Cond, mutex: *const Mutex) {
    // SAFETY: the caller's promise.
    unsafe { (*cond).wait(&*mutex) };
}

/// [`ol_cond_sleep`] until a clock has reached a time. Returns 0 or `ETIMEDOUT`; or `EINVAL`, and
/// has not released the mutex, if this is no such time or no such clock.
///
/// # Safety
/// As for [`ol_cond_sleep`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_cond_timed_sleep(
    cond: *const Cond,
    mutex: *const Mutex,
    clock: clockid_t,
    s: i64,
    ns: i64,
) -> c_int {
    let at = match deadline::on_clock(clock, s, ns) {
        Ok(at) => at,
        Err(error) => return error,
    };
    // SAFETY: the caller's promise.
    let notified = unsafe { (*cond).wait_until(&*mutex, Some(at)) };
    // If the clock was set back, the wait has ended early, as any wait may.
    if notified || !has_come(clock, s, ns) { 0 } else { ETIMEDOUT }
}

/// Wakes a waiter of those that have waited longest.
///
/// # Safety
/// `cond` points to a live condition variable that only these functions write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_cond_wake_one(cond: *const Cond) {
    // SAFETY: the caller's promise.
    unsafe { &*cond }.notify_one();
}

/// Wakes all waiters.
///
/// # Safety
/// As for [`ol_cond_wake_one`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_cond_wake_all(cond: *const Cond) {
    // SAFETY: the caller's promise.
    unsafe { &*cond }.notify_all();
}
