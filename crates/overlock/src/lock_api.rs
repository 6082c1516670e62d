//! The locks as `lock_api` raw mutexes, for code that is generic over them and for its guards.
//!
//! | lock | `RawMutex` | `RawMutexFair` | `RawMutexTimed` |
//! |---|---|---|---|
//! | [`TestAndSet`] | yes | no: it does not record the order of arrival | yes |
//! | [`Ticket`] | yes | yes: every release is fair | no: a ticket can't be handed back |
//! | [`Queued`] | yes | yes: the queue head is next | yes |
//! | [`Hybrid`] | yes | yes: the queue head is next, or else a waiter that sleeps | yes |
//!
//! [`RawRwLock`](crate::RawRwLock) has all the raw traits of a read-write lock. Its fair release is
//! that of a writer; the others have nothing to hand over, or only to one of their own kind.
//!
//! The guards are not `Send`: a lock is released by the CPU that took it.

use core::time::Duration;

use ::lock_api::{GuardNoSend, RawMutex, RawMutexFair, RawMutexTimed};

mod read_write;

use crate::atomic::ConstAtomic;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::{
    ConstLock, Hybrid, Queued, RawFairLock, RawLock, RawTimedLock, TestAndSet, Ticket, Width,
};

/// A time on a platform's clock, in nanoseconds ([`Platform::now_ns`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

macro_rules! raw_mutex {
    ($lock:ident<$($generic:ident: $bound:path),+> where $cell:ty: $int:ty) => {
        // SAFETY: `RawLock` promises the exclusion and the order that `RawMutex` asks for.
        unsafe impl<$($generic: $bound),+> RawMutex for $lock<$($generic),+>
        where
            $cell: ConstAtomic<$int>,
        {
            const INIT: Self = <Self as ConstLock>::NEW;
            type GuardMarker = GuardNoSend;

            #[inline]
            fn lock(&self) {
                RawLock::lock(self);
            }

            #[inline]
            fn try_lock(&self) -> bool {
                RawLock::try_lock(self)
            }

            #[inline]
            unsafe fn unlock(&self) {
                // SAFETY: the caller holds the lock.
                unsafe { RawLock::unlock(self) };
            }

            fn is_locked(&self) -> bool {
                RawLock::is_locked(self)
            }
        }
    };
}

macro_rules! raw_mutex_timed {
    ($($lock:ident),+) => {$(
        // SAFETY: `RawTimedLock` promises that true means locked.
        unsafe impl<P: Platform, C: Class> RawMutexTimed for $lock<P, C>
        where
            P::Word: ConstAtomic<u32>,
        {
            type Duration = Duration;
            type Instant = Nanos;

            fn try_lock_for(&self, timeout: Duration) -> bool {
                RawTimedLock::try_lock_for(self, timeout)
            }

            fn try_lock_until(&self, deadline: Nanos) -> bool {
                RawTimedLock::try_lock_until(self, deadline.0)
            }
        }
    )+};
}

raw_mutex!(TestAndSet<P: Platform, C: Class> where P::Word: u32);
raw_mutex!(Ticket<P: Platform, C: Class, W: Width> where W::Cell<P>: W::Int);
raw_mutex!(Queued<P: Platform, C: Class> where P::Word: u32);
raw_mutex!(Hybrid<P: Platform, C: Class> where P::Word: u32);
raw_mutex_timed!(TestAndSet, Queued, Hybrid);

macro_rules! raw_mutex_fair {
    ($lock:ident<$($generic:ident: $bound:path),+> where $cell:ty: $int:ty) => {
        // SAFETY: `RawFairLock` promises what `RawMutexFair` asks for.
        unsafe impl<$($generic: $bound),+> RawMutexFair for $lock<$($generic),+>
        where
            $cell: ConstAtomic<$int>,
        {
            #[inline]
            unsafe fn unlock_fair(&self) {
                // SAFETY: the caller holds the lock.
                unsafe { RawFairLock::unlock_fair(self) };
            }
        }
    };
}

raw_mutex_fair!(Ticket<P: Platform, C: Class, W: Width> where W::Cell<P>: W::Int);
raw_mutex_fair!(Queued<P: Platform, C: Class> where P::Word: u32);
raw_mutex_fair!(Hybrid<P: Platform, C: Class> where P::Word: u32);
