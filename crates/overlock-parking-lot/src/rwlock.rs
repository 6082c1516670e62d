//! `RwLock`, and its guards.

use lock_api::RawRwLock as _;

use crate::RawRwLock;

/// Data that many threads can read at a time, or one can write.
///
/// A thread that reads already calls `read_recursive`: a `read` may wait for a writer that waits
/// for this very thread.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// The right to read an [`RwLock`]'s data.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The right to write an [`RwLock`]'s data.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The right to read an [`RwLock`]'s data beside readers, and to upgrade.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// The right to read a part of an [`RwLock`]'s data.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The right to write a part of an [`RwLock`]'s data.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A read-write lock, for a constant or a `static`.
pub const fn const_rwlock<T>(data: T) -> RwLock<T> {
    RwLock::const_new(RawRwLock::INIT, data)
}
