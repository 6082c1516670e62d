// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of every lock, and the locks themselves: one algorithm per file.

/// What every lock offers besides its verbs: a constant, a default, and a `Debug` that shows
/// whether it is locked.
macro_rules! faces {
    ($lock:ident<$($generic:ident: $bound:path),+> where $cell:ty: $int:ty; $($zero:expr),+) => {
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
                f.debug_struct(stringify!($lock)).field("locked", &locked).finish_non_exhaustive()
            }
        }
    };
}

use crate::platform::{CheapRelease, Platform};

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

/// Whether waiting is switched off in the code, so that a release is the native one. Not where the
/// platform has cheap releases, which leave steals to be counted.
#[inline(always)]
fn is_patched_out<P: Platform>() -> bool {
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

    /// Takes the lock if that is possible without waiting.
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
    /// Takes the lock if that is possible before the platform's clock reads `deadline_ns`.
    ///
    /// Returns false no earlier than the deadline. It tries at least once, however old the deadline
    /// is.
    fn try_lock_until(&self, deadline_ns: u64) -> bool;
}
