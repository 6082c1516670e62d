//! Read-write locks.

use super::{guarded, pthread};
use crate::threads::subject::Subject;
use overlock::counters::Class;
use overlock::platform::Threads;
use overlock::{RawLock, RawRwLock};
use std::cell::UnsafeCell;
use std::sync::PoisonError;

pub(super) struct Ours<C: Class>(RawRwLock<Threads, C>);

impl<C: Class> Subject for Ours<C> {
    const SHARES: bool = true;

    fn new() -> Self {
        Ours(RawRwLock::new())
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.lock();
        let result = section();
        // SAFETY: taken three lines above, and a critical section that panics ends the whole run.
        unsafe { self.0.unlock() };
        result
    }

    #[inline]
    fn share<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.lock_shared();
        let result = section();
        // SAFETY: as in `with`.
        unsafe { self.0.unlock_shared() };
        result
    }
}

guarded! {
    std::sync::RwLock<()>, self => self.write().unwrap_or_else(PoisonError::into_inner),
        self.read().unwrap_or_else(PoisonError::into_inner);
    parking_lot::RwLock<()>, self => self.write(), self.read();
}

pthread! {
    /// The C library's, of the default kind.
    Pthread(libc::pthread_rwlock_t) = libc::PTHREAD_RWLOCK_INITIALIZER,
        pthread_rwlock_wrlock, pthread_rwlock_unlock, shared pthread_rwlock_rdlock;
}

/// Excludes writers from one another, and readers from nothing.
pub(super) struct Careless(std::sync::Mutex<()>);

impl Subject for Careless {
    const SHARES: bool = true;

    fn new() -> Self {
        Careless(std::sync::Mutex::new(()))
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.with(section)
    }

    fn share<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}
