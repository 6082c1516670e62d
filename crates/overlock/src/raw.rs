// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs every lock has, and the locks: one algorithm a file.

/// What every lock offers beside its verbs: a constant, a default, and a `Debug` that says whether
/// it is locked.
macro_rules! faces {
    ($lock:ident<$($generic:ident: $bound:path),+> where $cell:ty: $int:ty; $($zero:expr),+) => {
        impl<$($generic: $bound),+> $lock<$($generic),+>
        where
            $cell: $crate::atomic::ConstAtomic<$int>,
        {
            /// An unlocked lock. All its bytes are zero.
            pub const fn new() -> Self {
                Self::with($($zero),+)
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
                f.debug_struct(stringify!($lock)).field("locked", &locked).finish_non_exhaustive()
            }
        }
    };
}

pub mod hybrid;
pub mod queue;
pub mod queued;
pub mod test_and_set;
pub mod ticket;
pub(crate) mod word;

pub use hybrid::Hybrid;
pub use queued::Queued;
pub use test_and_set::TestAndSet;
pub use ticket::{Narrow, Ticket, Wide, Width};

/// A lock without the data it protects.
///
/// # Safety
/// Between the return of [`lock`](Self::lock), or of a [`try_lock`](Self::try_lock) that returned
/// true, and the [`unlock`](Self::unlock) that follows, no other such call returns true; and each
/// synchronises with the `unlock` before it.
pub unsafe trait RawLock: Send + Sync {
    /// Waits until the lock is free and takes it.
    fn lock(&self);

    /// Takes the lock if that is possible without waiting.
    fn try_lock(&self) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);

    /// Whether somebody holds the lock, or is about to by right. The answer may be old when it
    /// arrives.
    fn is_locked(&self) -> bool;
}

/// A lock that can be made in a constant.
pub trait ConstLock: RawLock {
    /// An unlocked lock. All its bytes are zero.
    const NEW: Self;
}

/// A lock that a waiter may give up waiting for.
///
/// # Safety
/// As for [`RawLock`]: a call that returns true has taken the lock.
pub unsafe trait RawTimedLock: RawLock {
    /// Takes the lock if that is possible before the platform's clock reads `deadline_ns`.
    ///
    /// Returns false no earlier than the deadline. It is tried at least once, however old the
    /// deadline is.
    fn try_lock_until(&self, deadline_ns: u64) -> bool;
}
