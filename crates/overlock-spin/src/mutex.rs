// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Mutex`, and its guard.

use crate::RawMutex;

/// Data that one CPU at a time can use.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// static QUEUE: overlock_spin::Mutex<u32> = overlock_spin::Mutex::new(0);
/// *QUEUE.lock() += 1;
/// assert_eq!(QUEUE.try_lock().map(|queue| *queue), Some(1));
/// # }
/// ```
pub type Mutex<T> = lock_api_crate::Mutex<RawMutex, T>;

/// The right to a [`Mutex`]'s data.
pub type MutexGuard<'a, T> = lock_api_crate::MutexGuard<'a, RawMutex, T>;

/// The same lock, by the name of one of `spin`'s.
pub type SpinMutex<T> = Mutex<T>;
/// Its guard.
pub type SpinMutexGuard<'a, T> = MutexGuard<'a, T>;
/// The same lock, by the name of another: waiters are served in order, once the queue head has been
/// passed for a bounded time.
pub type TicketMutex<T> = Mutex<T>;
/// Its guard.
pub type TicketMutexGuard<'a, T> = MutexGuard<'a, T>;
