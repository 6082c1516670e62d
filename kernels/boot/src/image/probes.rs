//! The locks' verbs as functions with plain names, so that `image --code` finds them in
//! the disassembly.

use overlock::{Hybrid, Queued, RawLock, TestAndSet, Ticket};
use overlock_boot::platform::bare::{Bare, NativeBare};

macro_rules! probes {
    ($($lock:ty: $lock_it:ident, $unlock_it:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $lock_it(lock: &$lock) {
                lock.lock();
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $unlock_it(lock: &$lock) {
                // SAFETY: the caller holds the lock. (There is no caller.)
                unsafe { lock.unlock() };
            }
        )*

        pub(super) fn keep() {
            $(
                core::hint::black_box($lock_it as *const ());
                core::hint::black_box($unlock_it as *const ());
            )*
        }
    };
}

probes! {
    TestAndSet<NativeBare>: test_and_set_native_lock, test_and_set_native_unlock;
    TestAndSet<Bare>: test_and_set_bare_lock, test_and_set_bare_unlock;
    Ticket<NativeBare>: ticket_native_lock, ticket_native_unlock;
    Ticket<Bare>: ticket_bare_lock, ticket_bare_unlock;
    Queued<NativeBare>: queued_native_lock, queued_native_unlock;
    Queued<Bare>: queued_bare_lock, queued_bare_unlock;
    Hybrid<NativeBare>: hybrid_native_lock, hybrid_native_unlock;
    Hybrid<Bare>: hybrid_bare_lock, hybrid_bare_unlock;
}
