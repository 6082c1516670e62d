//! The locks' verbs as functions with plain names, to be compiled on their own and inspected.
//!
//! `code_budget.rs` counts the instructions that they execute on x86-64; `cargo xtask weak` reads
//! the orderings in their aarch64 code. A lock has three: `NAME_lock`, `NAME_try_lock` and
//! `NAME_unlock`. The last two probes are wrong on purpose: they show that the checks notice.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use overlock::counters::Uncounted;
use overlock::platform::{Native, Threads};
use overlock::{Hybrid, Queued, RawLock, TestAndSet, Ticket};
use overlock::raw::Narrow;

macro_rules! probes {
    ($($lock:ty: $lock_it:ident, $try_it:ident, $unlock_it:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $lock_it(lock: &$lock) {
            lock.lock();
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $try_it(lock: &$lock) -> bool {
            lock.try_lock()
        }

        /// Releases the lock.
        ///
        /// # Safety
        /// The caller holds it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unlock_it(lock: &$lock) {
            // SAFETY: the caller holds the lock.
            unsafe { lock.unlock() };
        }
    )*};
}

probes! {
    TestAndSet<Native>: tas_native_lock, tas_native_try_lock, tas_native_unlock;
    TestAndSet<Threads>: tas_threads_lock, tas_threads_try_lock, tas_threads_unlock;
    Ticket<Native>: ticket_native_lock, ticket_native_try_lock, ticket_native_unlock;
    Ticket<Threads>: ticket_threads_lock, ticket_threads_try_lock, ticket_threads_unlock;
    Ticket<Native, Uncounted, Narrow>:
        narrow_native_lock, narrow_native_try_lock, narrow_native_unlock;
    Ticket<Threads, Uncounted, Narrow>:
        narrow_threads_lock, narrow_threads_try_lock, narrow_threads_unlock;
    Queued<Native>: queued_native_lock, queued_native_try_lock, queued_native_unlock;
    Queued<Threads>: queued_threads_lock, queued_threads_try_lock, queued_threads_unlock;
    Hybrid<Native>: hybrid_native_lock, hybrid_native_try_lock, hybrid_native_unlock;
    Hybrid<Threads>: hybrid_threads_lock, hybrid_threads_try_lock, hybrid_threads_unlock;
}

/// Too strong: takes a lock as Linux did before S3, with release semantics that no other CPU needs.
#[unsafe(no_mangle)]
pub extern "C" fn strong_try_lock(word: &AtomicU32) -> bool {
    word.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
}

/// Too fat: takes the lock twice.
#[unsafe(no_mangle)]
pub extern "C" fn fat_lock(lock: &Hybrid<Threads>) {
    lock.lock();
    // SAFETY: the line above took the lock.
    unsafe { lock.unlock() };
    lock.lock();
}
