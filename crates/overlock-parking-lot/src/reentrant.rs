//! `ReentrantMutex`, and its guards.

use std::num::NonZeroUsize;

use lock_api::{GetThreadId, RawMutex as _};

use crate::RawMutex;

/// Tells threads apart for a [`ReentrantMutex`].
#[derive(Debug)]
pub struct RawThreadId;

// SAFETY: two live threads have their own copies of the variable, at different addresses. None is
// zero, and one does not move.
unsafe impl GetThreadId for RawThreadId {
    const INIT: Self = Self;

    fn nonzero_thread_id(&self) -> NonZeroUsize {
        thread_local!(static HERE: u8 = const { 0 });
        HERE.with(|here| std::ptr::NonNull::from(here).addr())
    }
}

/// A mutex that the thread that holds it can take again, for shared access to its data.
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;

/// The right to reach a [`ReentrantMutex`]'s data.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The right to reach a part of a [`ReentrantMutex`]'s data.
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// A reentrant mutex, for a constant or a `static`.
pub const fn const_reentrant_mutex<T>(data: T) -> ReentrantMutex<T> {
    ReentrantMutex::const_new(RawMutex::INIT, RawThreadId::INIT, data)
}
