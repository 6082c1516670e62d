// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod condvar;
mod deadline;
mod mutex;
mod once;
mod raw;
mod reentrant;
mod rwlock;

pub use ::lock_api;
#[cfg(feature = "arc_lock")]
pub use ::lock_api::{
    ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard,
    ArcRwLockWriteGuard,
};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{
    FairMutex, FairMutexGuard, MappedFairMutexGuard, MappedMutexGuard, Mutex, MutexGuard,
    const_fair_mutex, const_mutex,
};
pub use once::{Once, OnceState};
pub use raw::{RawFairMutex, RawMutex, RawRwLock};
pub use reentrant::{
    MappedReentrantMutexGuard, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
    const_reentrant_mutex,
};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, const_rwlock,
};
