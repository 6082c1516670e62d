//! Mutexes with condition variables.

use crate::threads::subject::Monitor;
use overlock::counters::Class;
use overlock::platform::Threads;
use overlock::{ConstLock, RawCondvar};
use std::cell::UnsafeCell;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A lock of ours, and our condition variables.
pub(super) struct Ours<L, C: Class> {
    lock: L,
    conditions: [RawCondvar<Threads, C>; 2],
}

impl<L: ConstLock + 'static, C: Class> Monitor for Ours<L, C> {
    fn new() -> Self {
        Ours { lock: L::NEW, conditions: [RawCondvar::new(), RawCondvar::new()] }
    }

    #[inline]
    fn enter<R>(
        &self,
        at: usize,
        mut ready: impl FnMut() -> bool,
        section: impl FnOnce() -> R,
    ) -> R {
        self.lock.lock();
        while !ready() {
            // SAFETY: this thread holds the lock.
            unsafe { self.conditions[at].wait(&self.lock) };
        }
        let result = section();
        // SAFETY: this thread has taken it, and a section that panics ends the whole run.
        unsafe { self.lock.unlock() };
        result
    }

    #[inline]
    fn notify_one(&self, at: usize) {
        self.conditions[at].notify_one();
    }

    #[inline]
    fn notify_all(&self, at: usize) {
        self.conditions[at].notify_all();
    }
}

/// Mutexes whose guards release them, with the condition variables of their library.
macro_rules! guarded {
    ($($(#[$about:meta])* $name:ident($lock:ty, $condition:ty):
        $of:ident => $take:expr, $at:ident, $guard:ident => $wait:expr;)*) => {$(
        $(#[$about])*
        pub(super) struct $name {
            lock: $lock,
            conditions: [$condition; 2],
        }

        impl Monitor for $name {
            fn new() -> Self {
                $name { lock: <$lock>::new(()), conditions: Default::default() }
            }

            #[inline]
            fn enter<R>(
                &self,
                at: usize,
                mut ready: impl FnMut() -> bool,
                section: impl FnOnce() -> R,
            ) -> R {
                let ($of, $at) = (&self.lock, &self.conditions[at]);
                let mut $guard = $take;
                while !ready() {
                    $wait;
                }
                section()
            }

            #[inline]
            fn notify_one(&self, at: usize) {
                self.conditions[at].notify_one();
            }

            #[inline]
            fn notify_all(&self, at: usize) {
                self.conditions[at].notify_all();
            }
        }
    )*};
}

guarded! {
    Std(std::sync::Mutex<()>, std::sync::Condvar):
        lock => lock.lock().unwrap_or_else(PoisonError::into_inner),
        at, guard => guard = at.wait(guard).unwrap_or_else(PoisonError::into_inner);
    ParkingLot(parking_lot::Mutex<()>, parking_lot::Condvar):
        lock => lock.lock(),
        at, guard => at.wait(&mut guard);
}

pub(super) struct Pthread {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    conditions: [UnsafeCell<libc::pthread_cond_t>; 2],
}

// SAFETY: both are meant to be shared by all threads at one address.
unsafe impl Send for Pthread {}
// SAFETY: as above.
unsafe impl Sync for Pthread {}

impl Monitor for Pthread {
    fn new() -> Self {
        Pthread {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            conditions: [const { UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER) }; 2],
        }
    }

    #[inline]
    fn enter<R>(
        &self,
        at: usize,
        mut ready: impl FnMut() -> bool,
        section: impl FnOnce() -> R,
    ) -> R {
        // SAFETY: initialised statically, never moved once it is shared, and never destroyed.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        while !ready() {
            // SAFETY: as above, and this thread holds the mutex.
            unsafe { libc::pthread_cond_wait(self.conditions[at].get(), self.lock.get()) };
        }
        let result = section();
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
        result
    }

    #[inline]
    fn notify_one(&self, at: usize) {
        // SAFETY: as for the mutex.
        unsafe { libc::pthread_cond_signal(self.conditions[at].get()) };
    }

    #[inline]
    fn notify_all(&self, at: usize) {
        // SAFETY: as for the mutex.
        unsafe { libc::pthread_cond_broadcast(self.conditions[at].get()) };
    }
}

/// Forgets one notification in 512.
pub(super) struct Forgetful {
    inner: Std,
    count: AtomicU32,
}

impl Forgetful {
    fn forgets(&self) -> bool {
        self.count.fetch_add(1, Relaxed).is_multiple_of(512)
    }
}

impl Monitor for Forgetful {
    fn new() -> Self {
        Forgetful { inner: Std::new(), count: AtomicU32::new(0) }
    }

    fn enter<R>(&self, at: usize, ready: impl FnMut() -> bool, section: impl FnOnce() -> R) -> R {
        self.inner.enter(at, ready, section)
    }

    fn notify_one(&self, at: usize) {
        if !self.forgets() {
            self.inner.notify_one(at);
        }
    }

    fn notify_all(&self, at: usize) {
        if !self.forgets() {
            self.inner.notify_all(at);
        }
    }
}
