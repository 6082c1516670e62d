// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of locks of threads as functions of their own, for counting what they execute.
//!
//! They are compiled with this crate, which is optimised in every profile. A caller's own copies
//! would be optimised only as far as the caller is.

use overlock::platform::{Native, Threads};
use overlock::{ConstLock, Hybrid, Queued, RawLock, TestAndSet, Ticket};

/// A lock whose verbs are compiled here.
pub trait Compiled: ConstLock {
    /// Takes the lock.
    const LOCK: unsafe extern "C" fn(&Self);
    /// Releases the lock, which the caller holds.
    const UNLOCK: unsafe extern "C" fn(&Self);
}

macro_rules! compiled {
    ($($lock:ty),*) => {$(
        impl Compiled for $lock {
            const LOCK: unsafe extern "C" fn(&Self) = {
                #[inline(never)]
                unsafe extern "C" fn lock(lock: &$lock) {
                    lock.lock();
                }
                lock
            };
            const UNLOCK: unsafe extern "C" fn(&Self) = {
                #[inline(never)]
                unsafe extern "C" fn unlock(lock: &$lock) {
                    // SAFETY: the caller holds the lock.
                    unsafe { lock.unlock() };
                }
                unlock
            };
        }
    )*};
}

compiled! {
    TestAndSet<Native>, Ticket<Native>, Queued<Native>, Hybrid<Native>,
    TestAndSet<Threads>, Ticket<Threads>, Queued<Threads>, Hybrid<Threads>
}
