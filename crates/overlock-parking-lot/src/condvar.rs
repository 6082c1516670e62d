//! `Condvar`: waiting for a condition on a [`Mutex`](crate::Mutex)'s data.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};

use overlock::RawCondvar;
use overlock::lock_api::Nanos;
use overlock::platform::Threads;

use crate::deadline::{after, at};
use crate::{MutexGuard, RawMutex};

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the deadline passed first. A notification has then gone to another waiter.
    #[inline]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable.
///
/// A wait returns when it was notified, or when its deadline has passed. All threads that wait at
/// one time use the same mutex; one that comes with another panics. `notify_all` wakes all waiters
/// at once.
///
/// ```
/// use std::thread;
///
/// use overlock_parking_lot::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// let waiter = thread::spawn(|| {
///     let mut ready = READY.lock();
///     CHANGED.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.lock() = true;
/// CHANGED.notify_one();
/// waiter.join().unwrap();
/// ```
pub struct Condvar {
    raw: RawCondvar<Threads>,
    /// The mutex that the latest waiter came with.
    mutex: AtomicPtr<RawMutex>,
}

impl Condvar {
    /// A condition variable without waiters.
    #[inline]
    pub const fn new() -> Self {
        Self { raw: RawCondvar::new(), mutex: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Wakes the thread that has slept longest. Returns whether there was one.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Wakes all waiters. Returns how many there were.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.raw.notify_all()
    }

    /// Releases the mutex, waits until notified, and takes the mutex again.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, None);
    }

    /// [`wait`](Self::wait), until `timeout` at the latest.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.wait_with(guard, Some(at(timeout)))
    }

    /// [`wait`](Self::wait), for `timeout` at the longest.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_with(guard, Some(after(timeout)))
    }

    /// Waits until `condition` returns false, which is asked under the mutex at first and after
    /// each wait.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait_while<T: ?Sized, F: FnMut(&mut T) -> bool>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
    ) {
        self.wait_while_with(guard, condition, None);
    }

    /// [`wait_while`](Self::wait_while), until `timeout` at the latest.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait_while_until<T: ?Sized, F: FnMut(&mut T) -> bool>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_with(guard, condition, Some(at(timeout)))
    }

    /// [`wait_while`](Self::wait_while), for `timeout` at the longest.
    ///
    /// # Panics
    /// If another thread waits with another mutex.
    #[inline]
    pub fn wait_while_for<T: ?Sized, F: FnMut(&mut T) -> bool>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_with(guard, condition, Some(after(timeout)))
    }

    fn wait_while_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Option<Nanos>,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(&mut **guard) {
            result = self.wait_with(guard, deadline);
        }
        result
    }

    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Nanos>,
    ) -> WaitTimeoutResult {
        // SAFETY: the lock is released only by `wait_until`, which has taken it again at its end.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        self.come_with(mutex);
        // SAFETY: the guard holds the lock, and is borrowed, so nothing reaches the data by it.
        let notified = unsafe { self.raw.wait_until(&mutex.0, deadline.map(|at| at.0)) };
        WaitTimeoutResult(!notified)
    }

    /// Notes the mutex of a thread that is about to wait, and panics if others wait with another.
    ///
    /// Every waiter has noted its mutex before it joins. So if there are waiters while another
    /// mutex is noted, one has come with that one. Two threads that come at the same moment may
    /// both get past, which a caller must not rely on.
    fn come_with(&self, mutex: &RawMutex) {
        let mine = ptr::from_ref(mutex).cast_mut();
        if self.mutex.load(Relaxed) != mine {
            assert!(
                !self.raw.has_waiters(),
                "attempted to use a condition variable with more than one mutex"
            );
            self.mutex.store(mine, Relaxed);
        }
    }
}

impl Default for Condvar {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}
