#![warn(missing_docs)]
#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(test)]
extern crate std;

pub mod lazy;
#[cfg(not(feature = "threads"))]
mod linked;
pub mod mutex;
pub mod once;
mod raw;
pub mod rwlock;
mod set;

pub use lazy::Lazy;
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
/// What [`set_platform!`] needs of Overlock.
pub use overlock::platform;
pub use raw::{RawMutex, RawRwLock, RawTicketMutex};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockUpgradableGuard, RwLockWriteGuard};

#[doc(hidden)]
pub use set::{Kernels, Table};

/// The locks as `lock_api`'s types, under the names that they have in `spin`.
pub mod lock_api {
    use crate::RawRwLock;
    pub use crate::{Mutex, MutexGuard};

    /// A read-write lock.
    pub type RwLock<T> = lock_api_crate::RwLock<RawRwLock, T>;
    /// The right to read an [`RwLock`]'s data.
    pub type RwLockReadGuard<'a, T> = lock_api_crate::RwLockReadGuard<'a, RawRwLock, T>;
    /// The right to write an [`RwLock`]'s data.
    pub type RwLockWriteGuard<'a, T> = lock_api_crate::RwLockWriteGuard<'a, RawRwLock, T>;
    /// The right to read an [`RwLock`]'s data beside readers, and to upgrade.
    pub type RwLockUpgradableReadGuard<'a, T> =
        lock_api_crate::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
}
