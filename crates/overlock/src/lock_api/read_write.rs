//! The read-write lock as that of `lock_api`.

use core::time::Duration;

use ::lock_api::{
    GuardNoSend, RawRwLock as Raw, RawRwLockDowngrade, RawRwLockFair, RawRwLockRecursive,
    RawRwLockRecursiveTimed, RawRwLockTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade,
    RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};

use super::Nanos;
use crate::atomic::ConstAtomic;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::read_write::RawRwLock;
use crate::raw::{RawLock, RawTimedLock};

macro_rules! raw {
    ($($name:ident { $($body:tt)* })*) => {$(
        // SAFETY: the methods of the same meaning promise what the trait asks for, and the callers
        // of unsafe ones hold the lock as these ask for it.
        unsafe impl<P: Platform, C: Class> $name for RawRwLock<P, C>
        where
            P::Word: ConstAtomic<u32>,
        {
            $($body)*
        }
    )*};
}

/// Methods that pass a call of a raw lock on.
macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? => $to:ident($($with:expr),*);)*) => {$(
        #[inline]
        fn $name(&self $(, $arg: $type)*) $(-> $ret)? {
            self.$to($($with),*)
        }
    )*};
}

/// Unsafe methods that pass a call of a raw lock on.
macro_rules! pass_for_holder {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? => $to:ident($($with:expr),*);)*) => {$(
        #[inline]
        unsafe fn $name(&self $(, $arg: $type)*) $(-> $ret)? {
            // SAFETY: the caller holds the lock for what the trait says.
            unsafe { RawRwLock::<P, C>::$to(self $(, $with)*) }
        }
    )*};
}

raw! {
    Raw {
        const INIT: Self = Self::new();
        type GuardMarker = GuardNoSend;

        pass! {
            lock_shared() => lock_shared();
            try_lock_shared() -> bool => try_lock_shared();
            is_locked() -> bool => is_locked_at_all();
        }
        pass_for_holder! {
            unlock_shared() => unlock_shared();
        }

        #[inline]
        fn lock_exclusive(&self) {
            RawLock::lock(self);
        }

        #[inline]
        fn try_lock_exclusive(&self) -> bool {
            RawLock::try_lock(self)
        }

        #[inline]
        unsafe fn unlock_exclusive(&self) {
            // SAFETY: the caller holds the lock for writing.
            unsafe { RawLock::unlock(self) };
        }

        fn is_locked_exclusive(&self) -> bool {
            RawLock::is_locked(self)
        }
    }

    RawRwLockTimed {
        type Duration = Duration;
        type Instant = Nanos;

        pass! {
            try_lock_shared_for(timeout: Duration) -> bool
                => try_lock_shared_until(P::after(timeout));
            try_lock_shared_until(deadline: Nanos) -> bool => try_lock_shared_until(deadline.0);
        }

        fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
            RawTimedLock::try_lock_for(self, timeout)
        }

        fn try_lock_exclusive_until(&self, deadline: Nanos) -> bool {
            RawTimedLock::try_lock_until(self, deadline.0)
        }
    }

    RawRwLockRecursive {
        pass! {
            lock_shared_recursive() => lock_shared_recursive();
            try_lock_shared_recursive() -> bool => try_lock_shared_recursive();
        }
    }

    RawRwLockRecursiveTimed {
        pass! {
            try_lock_shared_recursive_for(timeout: Duration) -> bool
                => try_lock_shared_recursive_until(P::after(timeout));
            try_lock_shared_recursive_until(deadline: Nanos) -> bool
                => try_lock_shared_recursive_until(deadline.0);
        }
    }

    RawRwLockDowngrade {
        pass_for_holder! {
            downgrade() => downgrade();
        }
    }

    RawRwLockUpgrade {
        pass! {
            lock_upgradable() => lock_upgradable();
            try_lock_upgradable() -> bool => try_lock_upgradable();
        }
        pass_for_holder! {
            unlock_upgradable() => unlock_upgradable();
            upgrade() => upgrade();
            try_upgrade() -> bool => try_upgrade();
        }
    }

    RawRwLockUpgradeTimed {
        pass! {
            try_lock_upgradable_for(timeout: Duration) -> bool
                => try_lock_upgradable_until(P::after(timeout));
            try_lock_upgradable_until(deadline: Nanos) -> bool
                => try_lock_upgradable_until(deadline.0);
        }
        pass_for_holder! {
            try_upgrade_for(timeout: Duration) -> bool => try_upgrade_until(P::after(timeout));
            try_upgrade_until(deadline: Nanos) -> bool => try_upgrade_until(deadline.0);
        }
    }

    RawRwLockUpgradeDowngrade {
        pass_for_holder! {
            downgrade_upgradable() => downgrade_upgradable();
            downgrade_to_upgradable() => downgrade_to_upgradable();
        }
    }

    RawRwLockFair {
        pass_for_holder! {
            unlock_shared_fair() => unlock_shared();
            unlock_exclusive_fair() => unlock_fair();
        }
    }

    RawRwLockUpgradeFair {
        pass_for_holder! {
            unlock_upgradable_fair() => unlock_upgradable();
        }
    }
}
