//! Overlock's locks as raw locks with `parking_lot`'s names, whose deadlines are [`Instant`]s.

use std::time::{Duration, Instant};

use overlock::{Hybrid, Queued};
use overlock::platform::Threads;

use crate::deadline::at;

/// Whether guards can be sent to other threads.
#[cfg(feature = "own-send_guard")]
type GuardMarker = lock_api::GuardSend;
#[cfg(not(feature = "own-send_guard"))]
type GuardMarker = lock_api::GuardNoSend;

/// The raw lock of a [`Mutex`](crate::Mutex): four bytes.
#[derive(Debug)]
pub struct RawMutex(pub(crate) Hybrid<Threads>);

/// The raw lock of a [`FairMutex`](crate::FairMutex): four bytes, in the order of a queue.
#[derive(Debug)]
pub struct RawFairMutex(Queued<Threads>);

/// The raw lock of an [`RwLock`](crate::RwLock): four bytes.
#[derive(Debug)]
pub struct RawRwLock(overlock::RawRwLock<Threads>);

/// Implements a trait of `lock_api` by calls of the lock inside.
macro_rules! raw {
    ($($name:ident for $lock:ty {
        $(type $alias:ident = $type:ty;)*
        $(const INIT = $init:expr;)?
        $(safe: $($verb:ident($($arg:ident: $arg_type:ty => $with:expr)?) $(-> $ret:ty)?),+;)?
        $(unsafe: $($unsafe_verb:ident($($uarg:ident: $uarg_type:ty => $uwith:expr)?)
            $(-> $uret:ty)?),+;)?
    })*) => {$(
        // SAFETY: the lock inside promises what the trait asks for.
        unsafe impl lock_api::$name for $lock {
            $(type $alias = $type;)*
            $(const INIT: Self = $init;)?
            $($(
                #[inline]
                fn $verb(&self $(, $arg: $arg_type)?) $(-> $ret)? {
                    lock_api::$name::$verb(&self.0 $(, $with)?)
                }
            )+)?
            $($(
                #[inline]
                unsafe fn $unsafe_verb(&self $(, $uarg: $uarg_type)?) $(-> $uret)? {
                    // SAFETY: the caller's.
                    unsafe { lock_api::$name::$unsafe_verb(&self.0 $(, $uwith)?) }
                }
            )+)?
        }
    )*};
}

raw! {
    RawMutex for RawMutex {
        type GuardMarker = GuardMarker;
        const INIT = Self(Hybrid::new());
        safe: lock(), try_lock() -> bool, is_locked() -> bool;
        unsafe: unlock();
    }

    RawRwLock for RawRwLock {
        type GuardMarker = GuardMarker;
        const INIT = Self(overlock::RawRwLock::new());
        safe:
            lock_shared(), try_lock_shared() -> bool,
            lock_exclusive(), try_lock_exclusive() -> bool,
            is_locked() -> bool, is_locked_exclusive() -> bool;
        unsafe: unlock_shared(), unlock_exclusive();
    }

    RawRwLockTimed for RawRwLock {
        type Duration = Duration;
        type Instant = Instant;
        safe:
            try_lock_shared_for(timeout: Duration => timeout) -> bool,
            try_lock_shared_until(deadline: Instant => at(deadline)) -> bool,
            try_lock_exclusive_for(timeout: Duration => timeout) -> bool,
            try_lock_exclusive_until(deadline: Instant => at(deadline)) -> bool;
    }

    RawRwLockRecursive for RawRwLock {
        safe: lock_shared_recursive(), try_lock_shared_recursive() -> bool;
    }

    RawRwLockRecursiveTimed for RawRwLock {
        safe:
            try_lock_shared_recursive_for(timeout: Duration => timeout) -> bool,
            try_lock_shared_recursive_until(deadline: Instant => at(deadline)) -> bool;
    }

    RawRwLockDowngrade for RawRwLock {
        unsafe: downgrade();
    }

    RawRwLockUpgrade for RawRwLock {
        safe: lock_upgradable(), try_lock_upgradable() -> bool;
        unsafe: unlock_upgradable(), upgrade(), try_upgrade() -> bool;
    }

    RawRwLockUpgradeTimed for RawRwLock {
        safe:
            try_lock_upgradable_for(timeout: Duration => timeout) -> bool,
            try_lock_upgradable_until(deadline: Instant => at(deadline)) -> bool;
        unsafe:
            try_upgrade_for(timeout: Duration => timeout) -> bool,
            try_upgrade_until(deadline: Instant => at(deadline)) -> bool;
    }

    RawRwLockUpgradeDowngrade for RawRwLock {
        unsafe: downgrade_upgradable(), downgrade_to_upgradable();
    }

    RawRwLockFair for RawRwLock {
        unsafe: unlock_shared_fair(), unlock_exclusive_fair();
    }

    RawRwLockUpgradeFair for RawRwLock {
        unsafe: unlock_upgradable_fair();
    }
}

macro_rules! fair_and_timed {
    ($($lock:ty),*) => {
        raw! {$(
            RawMutexFair for $lock {
                unsafe: unlock_fair();
            }

            RawMutexTimed for $lock {
                type Duration = Duration;
                type Instant = Instant;
                safe:
                    try_lock_for(timeout: Duration => timeout) -> bool,
                    try_lock_until(deadline: Instant => at(deadline)) -> bool;
            }
        )*}
    };
}
fair_and_timed!(RawMutex, RawFairMutex);

// SAFETY: the lock inside promises what the trait asks for, and a fair release is a release.
unsafe impl lock_api::RawMutex for RawFairMutex {
    type GuardMarker = GuardMarker;
    const INIT: Self = Self(Queued::new());

    #[inline]
    fn lock(&self) {
        lock_api::RawMutex::lock(&self.0);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        lock_api::RawMutex::try_lock(&self.0)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's.
        unsafe { lock_api::RawMutexFair::unlock_fair(&self.0) };
    }

    fn is_locked(&self) -> bool {
        lock_api::RawMutex::is_locked(&self.0)
    }
}
