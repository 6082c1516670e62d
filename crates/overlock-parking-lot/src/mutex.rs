//! `Mutex` and `FairMutex`, and their guards.

use lock_api::RawMutex as _;

use crate::{RawFairMutex, RawMutex};

/// Data that one thread at a time can reach.
///
/// ```
/// use overlock_parking_lot::{Mutex, const_mutex};
///
/// static HITS: Mutex<u64> = const_mutex(0);
/// *HITS.lock() += 1;
/// assert_eq!(*HITS.lock(), 1);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The right to reach a [`Mutex`]'s data.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The right to reach a part of a [`Mutex`]'s data.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A mutex that each release passes on to the thread that is next, if one waits: never starved,
/// and slow where threads compete.
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;

/// The right to reach a [`FairMutex`]'s data.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;

/// The right to reach a part of a [`FairMutex`]'s data.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// A mutex, for a constant or a `static`.
pub const fn const_mutex<T>(data: T) -> Mutex<T> {
    Mutex::const_new(RawMutex::INIT, data)
}

/// A fair mutex, for a constant or a `static`.
pub const fn const_fair_mutex<T>(data: T) -> FairMutex<T> {
    FairMutex::const_new(RawFairMutex::INIT, data)
}
