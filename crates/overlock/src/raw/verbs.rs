//! The verbs of every lock.

/// What every lock offers besides its verbs: a constant, a default, and a `Debug` that shows
/// whether it is locked.
macro_rules! faces {
    (
        $lock:ident<$($generic:ident: $bound:path),+> called $name:expr,
        where $cell:ty: $int:ty; $($zero:expr),+
    ) => {
        impl<$($generic: $bound),+> $lock<$($generic),+>
        where
            $cell: $crate::atomic::ConstAtomic<$int>,
        {
            /// An unlocked lock. All its bytes are zero.
            pub const fn new() -> Self {
                // SAFETY: `ConstAtomic::ZERO` holds zero.
                unsafe { Self::with($($zero),+) }
            }
        }

        impl<$($generic: $bound),+> $crate::raw::ConstLock for $lock<$($generic),+>
        where
            $cell: $crate::atomic::ConstAtomic<$int>,
        {
            const NEW: Self = Self::new();
        }

        impl<$($generic: $bound),+> Default for $lock<$($generic),+>
        where
            $cell: $crate::atomic::ConstAtomic<$int>,
        {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<$($generic: $bound),+> core::fmt::Debug for $lock<$($generic),+> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let locked = $crate::raw::RawLock::is_locked(self);
                f.debug_struct($name).field("locked", &locked).finish_non_exhaustive()
            }
        }
    };
}

use core::time::Duration;

use crate::platform::{CheapRelease, Platform, later};

/// Whether waiting is switched off in the code, so that a release is the native one. Not where the
/// platform has cheap releases, which leave steals to be counted.
#[inline(always)]
pub(super) fn is_patched_out<P: Platform>() -> bool {
    P::WAITS_IS_PATCHED && !P::Release::EXISTS && !P::waits()
}

/// A lock without the data it protects.
///
/// # Safety
/// Between the return of [`lock`](Self::lock), or of a [`try_lock`](Self::try_lock) that returned
/// true, and the [`unlock`](Self::unlock) that follows, no other call of `lock` returns and no
/// other call of `try_lock` returns true; and each acquisition synchronises with the `unlock`
/// before it.
pub unsafe trait RawLock: Send + Sync {
    /// Waits until the lock is free and takes it.
    fn lock(&self);

    /// Takes the lock if that is possible without waiting. Returns whether it did.
    #[must_use = "if this returns true, the lock must be released"]
    fn try_lock(&self) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);

    /// Whether a CPU holds the lock, or is next by right and about to hold it. The answer may be
    /// out of date by the time it is returned.
    fn is_locked(&self) -> bool;
}

/// A lock that can be made in a constant.
pub trait ConstLock: RawLock {
    /// An unlocked lock. All its bytes are zero.
    const NEW: Self;
}

/// A lock for which a waiter can give up waiting.
///
/// # Safety
/// As for [`RawLock`]: a call that returns true has taken the lock.
pub unsafe trait RawTimedLock: RawLock {
    /// Takes the lock if that is possible before [`now_ns`](Self::now_ns) reaches `deadline_ns`.
    /// Returns whether it did.
    ///
    /// Returns false no earlier than the deadline. It tries at least once, however old the deadline
    /// is.
    #[must_use = "if this returns true, the lock must be released"]
    fn try_lock_until(&self, deadline_ns: u64) -> bool;

    /// The clock of the deadlines, in nanoseconds: [`Platform::now_ns`].
    fn now_ns() -> u64
    where
        Self: Sized;

    /// Takes the lock if that is possible within `timeout`; otherwise like
    /// [`try_lock_until`](Self::try_lock_until). Where the clock stands still, it waits for the
    /// lock however long that takes.
    #[must_use = "if this returns true, the lock must be released"]
    fn try_lock_for(&self, timeout: Duration) -> bool
    where
        Self: Sized,
    {
        self.try_lock_until(later(Self::now_ns(), timeout))
    }
}

/// A lock that knows which waiter is next.
///
/// # Safety
/// As for [`RawLock`]: `unlock_fair` is an `unlock`.
pub unsafe trait RawFairLock: RawLock {
    /// Releases the lock so that the next waiter, if there is one, is the next to take it.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock_fair(&self);
}
