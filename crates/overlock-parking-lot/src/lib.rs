#![warn(missing_docs)]
#![doc = include_str!("../README.md")]

/// Where there are futexes, this crate is its own; elsewhere it is the real `parking_lot`.
macro_rules! ours {
    ($($item:item)*) => {
        $(
            #[cfg(any(target_os = "linux", target_os = "android"))]
            $item
        )*
    };
}

#[cfg(all(feature = "elsewhere", not(any(target_os = "linux", target_os = "android"))))]
pub use parking_lot::*;

#[cfg(not(any(feature = "elsewhere", target_os = "linux", target_os = "android")))]
compile_error!(
    "overlock-parking-lot has locks of its own on Linux and Android only; its default feature \
     `elsewhere` makes it the real parking_lot here, and a patched parking_lot is taken out by \
     `compat/patch/overlock-patch remove`"
);

ours! {
    mod condvar;
    mod deadline;
    mod mutex;
    mod once;
    mod raw;
    mod reentrant;
    mod rwlock;

    pub use ::lock_api;
    #[cfg(feature = "own-arc_lock")]
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
}
