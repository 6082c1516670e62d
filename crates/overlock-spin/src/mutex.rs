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

/// The same lock, by the path that it has in `spin`.
pub mod spin {
    pub use super::{Mutex as SpinMutex, MutexGuard as SpinMutexGuard};
}

/// A lock of strict order.
pub mod ticket {
    use crate::RawTicketMutex;

    /// Data that one CPU at a time can use, first come, first served: the order costs a change of
    /// CPUs for each release, and is for what no other lock may pass.
    pub type TicketMutex<T> = lock_api_crate::Mutex<RawTicketMutex, T>;
    /// The right to a [`TicketMutex`]'s data.
    pub type TicketMutexGuard<'a, T> = lock_api_crate::MutexGuard<'a, RawTicketMutex, T>;
}

pub use spin::{SpinMutex, SpinMutexGuard};
pub use ticket::{TicketMutex, TicketMutexGuard};
