//! Overlock's locks as raw locks of `lock_api`. As under `spin`, another CPU may release them.

use lock_api_crate::GuardSend;

#[cfg(not(feature = "threads"))]
use crate::linked::Linked as Cpus;
#[cfg(feature = "threads")]
use overlock::platform::Threads as Cpus;

/// The raw lock of a [`Mutex`](crate::Mutex): four bytes.
#[derive(Debug)]
pub struct RawMutex(overlock::Hybrid<Cpus>);

/// The raw lock of a [`TicketMutex`](crate::mutex::TicketMutex): four bytes.
#[derive(Debug)]
pub struct RawTicketMutex(overlock::Ticket<Cpus>);

/// The raw lock of an [`RwLock`](crate::RwLock): four bytes.
#[derive(Debug)]
pub struct RawRwLock(overlock::RawRwLock<Cpus>);

/// Implements a trait of `lock_api` by calls of the lock inside.
macro_rules! raw {
    ($($name:ident for $lock:ident {
        $(const INIT = $init:expr;)?
        safe: $($verb:ident() $(-> $ret:ty)?),*;
        unsafe: $($unsafe_verb:ident() $(-> $unsafe_ret:ty)?),*;
    })*) => {$(
        // SAFETY: the lock inside promises what the trait asks for.
        unsafe impl lock_api_crate::$name for $lock {
            $(
                const INIT: Self = Self($init);
                type GuardMarker = GuardSend;
            )?
            $(
                #[inline]
                fn $verb(&self) $(-> $ret)? {
                    lock_api_crate::$name::$verb(&self.0)
                }
            )*
            $(
                #[inline]
                unsafe fn $unsafe_verb(&self) $(-> $unsafe_ret)? {
                    // SAFETY: the caller's.
                    unsafe { lock_api_crate::$name::$unsafe_verb(&self.0) }
                }
            )*
        }
    )*};
}

raw! {
    RawMutex for RawMutex {
        const INIT = overlock::Hybrid::new();
        safe: lock(), try_lock() -> bool, is_locked() -> bool;
        unsafe: unlock();
    }

    RawMutex for RawTicketMutex {
        const INIT = overlock::Ticket::new();
        safe: lock(), try_lock() -> bool, is_locked() -> bool;
        unsafe: unlock();
    }

    RawRwLock for RawRwLock {
        const INIT = overlock::RawRwLock::new();
        safe:
            lock_shared(), try_lock_shared() -> bool,
            lock_exclusive(), try_lock_exclusive() -> bool,
            is_locked() -> bool, is_locked_exclusive() -> bool;
        unsafe: unlock_shared(), unlock_exclusive();
    }

    RawRwLockRecursive for RawRwLock {
        safe: lock_shared_recursive(), try_lock_shared_recursive() -> bool;
        unsafe: ;
    }

    RawRwLockDowngrade for RawRwLock {
        safe: ;
        unsafe: downgrade();
    }

    RawRwLockUpgrade for RawRwLock {
        safe: lock_upgradable(), try_lock_upgradable() -> bool;
        unsafe: unlock_upgradable(), upgrade(), try_upgrade() -> bool;
    }

    RawRwLockUpgradeDowngrade for RawRwLock {
        safe: ;
        unsafe: downgrade_upgradable(), downgrade_to_upgradable();
    }
}
