//! The Rust half of a program whose C half (`both.c`) takes the same lock.
//!
//! The program links one Rust library, this one, which provides Overlock for both halves: the queue
//! locks find their waiters in tables of the process, and two copies of the library would have two
//! sets of tables.

use std::ffi::c_ulong;

use overlock::RawLock;
use overlock_c::Hybrid;

/// A lock in C memory and the number it protects: `struct account` in `both.c`.
#[repr(C)]
#[derive(Debug)]
pub struct Account {
    lock: Hybrid,
    balance: c_ulong,
}

/// Adds one to the balance, `times` times.
///
/// # Safety
/// `account` points to an account that only holders of its lock change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_deposits(account: *mut Account, times: c_ulong) {
    for _ in 0..times {
        // SAFETY: the account is alive; the lock is shared, and only atomic accesses change it.
        let lock = unsafe { &(*account).lock };
        lock.lock();
        // SAFETY: this thread holds the lock, so no other thread accesses the balance.
        unsafe { (*account).balance += 1 };
        // SAFETY: taken above.
        unsafe { lock.unlock() };
    }
}
