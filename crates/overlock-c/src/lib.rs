//! Overlock's locks for C and C++: the slow paths behind `include/overlock.h`.
//!
//! The header has the uncontended path of each lock inline and describes the interface; this
//! library has the rest. A lock is the same object on both sides: `ol_hybrid_t` is a [`Hybrid`],
//! and a Rust program that links this crate can share it with its C half. `tests/suite/header.rs`
//! compares the header's assumptions about a lock word with the real layout.
//!
//! No function unwinds: a panic, which only a bug in Overlock could cause, aborts at the boundary
//! (`extern "C"`).
//!
//! The installed libraries contain nothing of Rust's standard library: `freestanding.rs`.

#![cfg_attr(not(feature = "std"), no_std)]

mod counters;
mod deadline;
#[cfg(not(feature = "std"))]
mod freestanding;
mod misuse;
mod waits;

use core::ffi::{CStr, c_char, c_int};

use libc::{EBUSY, ETIMEDOUT};
use overlock::abi::SlowPath;
use overlock::platform::{Shared, Threads};
use overlock::{RawLock, RawTimedLock};

pub use counters::{CLocks, ol_counter, ol_counter_name};
pub use misuse::ol_unlock_of_free;
pub use waits::*;

/// The locks of the header, which their functions take by address.
pub type TestAndSet = overlock::TestAndSet<Threads, CLocks>;
pub type Ticket = overlock::Ticket<Threads, CLocks>;
pub type Queued = overlock::Queued<Threads, CLocks>;
pub type Hybrid = overlock::Hybrid<Threads, CLocks>;
pub type SharedLock = overlock::TestAndSet<Shared, CLocks>;

/// Asserts the header's claim that each lock is four bytes; so its word is at its beginning.
macro_rules! assert_layout {
    ($($lock:ty: $align:literal),*) => {$(
        const _: () = assert!(size_of::<$lock>() == 4 && align_of::<$lock>() == $align);
    )*};
}
assert_layout!(TestAndSet: 4, Ticket: 2, Queued: 4, Hybrid: 4, SharedLock: 4);

/// Switches halting on or off for all locks but `ol_shared_t`: `ol_set_waiting`. Returns zero, or
/// `EBUSY` if a thread has already waited for a lock.
#[unsafe(no_mangle)]
pub extern "C" fn ol_set_waiting(on: bool) -> c_int {
    if Threads::set_waiting(on) { 0 } else { libc::EBUSY }
}

/// Returns the version of this library, for a program to compare with its header's: `ol_version`.
#[unsafe(no_mangle)]
pub extern "C" fn ol_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}

/// The slow paths that every lock has.
macro_rules! slow_paths {
    ($($lock:ty: $lock_slow:ident, $unlock_slow:ident;)*) => {$(
        /// Waits for a lock that the inline path could not take. `ticket` is the one that the
        /// inline path drew, if the lock has tickets.
        ///
        /// # Safety
        /// `lock` points to a live lock, and only the locks' functions write to it. A drawn ticket
        /// is passed on once.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $lock_slow(lock: *const $lock, ticket: u32) {
            // SAFETY: the caller's promise.
            let lock = unsafe { &*lock };
            lock.lock_slow_path(ticket);
        }

        /// What is left to do after the inline path has released a lock: kicks a waiter, for
        /// example. The cell that it changed held `before`. Only the address of the lock is used.
        #[unsafe(no_mangle)]
        pub extern "C" fn $unlock_slow(lock: *const $lock, before: u32) {
            <$lock>::after_release(lock, before);
        }
    )*};
}

/// The slow paths of the locks whose waiters can give up.
macro_rules! timed_slow_paths {
    ($($lock:ty: $trylock_slow:ident, $timedlock_slow:ident;)*) => {$(
        /// Takes a lock if that is possible without waiting. Its word was not zero, but the lock
        /// may be free, with waiters that the caller is allowed to pass. Returns 0 or `EBUSY`.
        ///
        /// # Safety
        /// `lock` points to a live lock, and only the locks' functions write to it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $trylock_slow(lock: *const $lock) -> c_int {
            // SAFETY: the caller's promise.
            let lock = unsafe { &*lock };
            if lock.try_lock() { 0 } else { EBUSY }
        }

        /// Waits for a lock until `CLOCK_MONOTONIC` reads `s` seconds and `ns` nanoseconds. Returns
        /// 0, `ETIMEDOUT`, or `EINVAL` if that is not a valid time. (The time is passed as two
        /// numbers because the size of `time_t` depends on the program's compiler flags on 32-bit
        /// machines.)
        ///
        /// # Safety
        /// `lock` points to a live lock, and only the locks' functions write to it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timedlock_slow(lock: *const $lock, s: i64, ns: i64) -> c_int {
            // SAFETY: the caller's promise.
            let lock = unsafe { &*lock };
            match deadline::on_kernels_clock(s, ns) {
                Ok(ns) => if lock.try_lock_until(ns) { 0 } else { ETIMEDOUT },
                Err(error) => error,
            }
        }
    )*};
}

slow_paths! {
    TestAndSet: ol_test_and_set_lock_slow, ol_test_and_set_unlock_slow;
    Ticket: ol_ticket_lock_slow, ol_ticket_unlock_slow;
    Queued: ol_queued_lock_slow, ol_queued_unlock_slow;
    Hybrid: ol_hybrid_lock_slow, ol_hybrid_unlock_slow;
    SharedLock: ol_shared_lock_slow, ol_shared_unlock_slow;
}

timed_slow_paths! {
    TestAndSet: ol_test_and_set_trylock_slow, ol_test_and_set_timedlock_slow;
    Queued: ol_queued_trylock_slow, ol_queued_timedlock_slow;
    Hybrid: ol_hybrid_trylock_slow, ol_hybrid_timedlock_slow;
    SharedLock: ol_shared_trylock_slow, ol_shared_timedlock_slow;
}
