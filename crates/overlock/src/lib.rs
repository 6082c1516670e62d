//! Spin locks for CPUs that get taken away.
//!
//! Programs want `ThreadMutex`, which comes with the feature `threads`. The default features are
//! empty on purpose: the crate is for kernels too, which bring their own
//! [`Platform`](platform::Platform).
//!
//! A thread or a virtual CPU that holds a spin lock, or that is next in the queue for one, can lose
//! its processor at any instruction; every waiter behind it then burns time for nothing. The locks
//! here spin for a moment, halt, and are called back. One source serves threads, guests of a
//! hypervisor, bare metal and a model checker: each lock is generic over the
//! [`Platform`](platform::Platform) it runs on.
//!
//! | lock | order | bypass of a waiter | for |
//! |---|---|---|---|
//! | [`Hybrid`] | unfair, then by the queue | at most 4,095 acquisitions while it is the queue head, none once it has disabled stealing | almost everything |
//! | [`Queued`] | by the queue | during one halt | many waiters, order wanted |
//! | [`Ticket`] | strictly first come, first served | none | order at any price |
//! | [`TestAndSet`] | none | unbounded | a baseline; memory shared between processes |
//!
//! A lock is at most 4 bytes, starts as zeros, and can stand in a `static`.
//!
//! ```
//! # #[cfg(feature = "threads")] {
//! use overlock::ThreadMutex;
//!
//! static HITS: ThreadMutex<u64> = ThreadMutex::new(0);
//! *HITS.lock() += 1;
//! # }
//! ```
//!
//! Beside them:
//!
//! | type | order | for |
//! |---|---|---|
//! | [`RwLock`] | readers and writers in turns, when both wait | data that is read more often than written |
//! | [`Condvar`] | never by a later waiter's notification; `notify_all` wakes all at once | waiting for a condition on a mutex's data, with a lock of any kind |
//!
//! [`Refresh`] is another primitive: a shared value that one CPU computes anew while the others
//! wait for it instead of repeating the work.
//!
//! # Features
//!
//! Without features the crate is `no_std` and depends on nothing: bring a
//! [`Platform`](platform::Platform), or use [`platform::Native`].
//!
//! * `threads`: [`platform::Threads`] and [`platform::Shared`], for programs on Linux and Android.
//! * `lock_api`: the raw mutex traits of that crate.

#![warn(missing_docs)]
#![no_std]

#[cfg(all(feature = "threads", not(any(target_os = "linux", target_os = "android"))))]
compile_error!(
    "the feature `threads` of the crate `overlock` needs Linux or Android: a thread halts in a futex"
);

#[doc(hidden)]
pub mod abi;
pub mod atomic;
mod condvar;
pub mod counters;
mod entered;
#[cfg(feature = "lock_api")]
pub mod lock_api;
mod mutex;
#[cfg(all(test, feature = "threads"))]
mod one_cpu;
mod park;
pub mod platform;
pub mod raw;
pub mod refresh;
#[cfg(feature = "lock_api")]
mod rwlock;
mod slot;
mod spin;
mod waiters;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Guard, Mutex};
pub use raw::condvar::RawCondvar;
pub use raw::read_write::RawRwLock;
pub use raw::{ConstLock, Hybrid, Queued, RawFairLock, RawLock, RawTimedLock, TestAndSet, Ticket};
pub use refresh::Refresh;
#[cfg(feature = "lock_api")]
pub use rwlock::{RwLock, RwLockReadGuard, RwLockUpgradableGuard, RwLockWriteGuard};

/// The right mutex for an application: [`Hybrid`] on [`platform::Threads`].
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
pub type ThreadMutex<T> = Mutex<T, Hybrid<platform::Threads>>;

/// The guard of a [`ThreadMutex`].
///
/// ```
/// use overlock::{ThreadMutex, ThreadMutexGuard};
///
/// fn greets(name: &ThreadMutexGuard<'_, String>) -> String {
///     format!("Hello, {name}!")
/// }
///
/// let name = ThreadMutex::new("Bernard".to_owned());
/// assert_eq!(greets(&name.lock()), "Hello, Bernard!");
/// ```
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
pub type ThreadMutexGuard<'a, T> = Guard<'a, T, Hybrid<platform::Threads>>;

/// The right read-write lock for an application.
#[cfg(all(
    feature = "threads",
    feature = "lock_api",
    any(target_os = "linux", target_os = "android")
))]
pub type ThreadRwLock<T> = RwLock<T, platform::Threads>;

/// The right condition variable for an application.
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
pub type ThreadCondvar = Condvar<platform::Threads>;
