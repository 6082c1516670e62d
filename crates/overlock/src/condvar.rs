//! `Condvar<P>`: waiting for a condition on the data of a mutex.

use core::time::Duration;

use crate::atomic::ConstAtomic;
use crate::counters::{Class, Uncounted};
use crate::mutex::Guard;
use crate::platform::Platform;
use crate::raw::RawLock;
use crate::raw::condvar::RawCondvar;

/// A condition variable, for mutexes with a lock of any kind.
///
/// A wait may end without a notification, so a waiter looks at its condition in a loop, or calls
/// [`wait_while`](Self::wait_while). All waiters of one condition variable use the same mutex.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// use std::thread;
///
/// use overlock::{ThreadCondvar, ThreadMutex};
///
/// static READY: ThreadMutex<bool> = ThreadMutex::new(false);
/// static CHANGED: ThreadCondvar = ThreadCondvar::new();
///
/// let waiter = thread::spawn(|| {
///     let mut ready = READY.lock();
///     CHANGED.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.lock() = true;
/// CHANGED.notify_one();
/// waiter.join().unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct Condvar<P: Platform, C: Class = Uncounted> {
    raw: RawCondvar<P, C>,
}

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the deadline may have passed"]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the deadline passed first. A notification has then gone to another waiter.
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

impl<P: Platform, C: Class> Condvar<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { raw: RawCondvar::new() }
    }
}

impl<P: Platform, C: Class> Default for Condvar<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, C: Class> Condvar<P, C> {
    /// This condition variable, which must have no waiters.
    pub const fn with(raw: RawCondvar<P, C>) -> Self {
        Self { raw }
    }

    /// Releases the mutex, waits until notified, and takes the mutex again. It may also return
    /// without a notification.
    pub fn wait<T: ?Sized, L: RawLock>(&self, guard: &mut Guard<'_, T, L>) {
        // SAFETY: the guard holds the lock, and nothing reaches the data through it meanwhile.
        unsafe { self.raw.wait(Guard::lock(guard)) };
    }

    /// [`wait`](Self::wait), until the platform's clock reads `deadline_ns` at the latest
    /// ([`Platform::now_ns`]).
    pub fn wait_until<T: ?Sized, L: RawLock>(
        &self,
        guard: &mut Guard<'_, T, L>,
        deadline_ns: u64,
    ) -> WaitTimeoutResult {
        // SAFETY: as in `wait`.
        let notified = unsafe { self.raw.wait_until(Guard::lock(guard), Some(deadline_ns)) };
        WaitTimeoutResult(!notified)
    }

    /// [`wait`](Self::wait), for `timeout` at the longest.
    pub fn wait_for<T: ?Sized, L: RawLock>(
        &self,
        guard: &mut Guard<'_, T, L>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_until(guard, P::after(timeout))
    }

    /// Waits until `holds` returns false, which is asked under the mutex at first and after each
    /// wait.
    pub fn wait_while<T: ?Sized, L: RawLock>(
        &self,
        guard: &mut Guard<'_, T, L>,
        mut holds: impl FnMut(&mut T) -> bool,
    ) {
        while holds(&mut **guard) {
            self.wait(guard);
        }
    }

    /// [`wait_while`](Self::wait_while), until the platform's clock reads `deadline_ns` at the
    /// latest. It has timed out if the condition still holds then.
    pub fn wait_while_until<T: ?Sized, L: RawLock>(
        &self,
        guard: &mut Guard<'_, T, L>,
        mut holds: impl FnMut(&mut T) -> bool,
        deadline_ns: u64,
    ) -> WaitTimeoutResult {
        let mut late = false;
        while holds(&mut **guard) {
            if late {
                return WaitTimeoutResult(true);
            }
            late = self.wait_until(guard, deadline_ns).timed_out();
        }
        WaitTimeoutResult(false)
    }

    /// [`wait_while`](Self::wait_while), for `timeout` at the longest.
    pub fn wait_while_for<T: ?Sized, L: RawLock>(
        &self,
        guard: &mut Guard<'_, T, L>,
        holds: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_until(guard, holds, P::after(timeout))
    }

    /// Wakes a waiter of those that have waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Wakes all waiters. Returns how many there were.
    pub fn notify_all(&self) -> usize {
        self.raw.notify_all()
    }

    /// The condition variable for locks without data.
    pub fn raw(&self) -> &RawCondvar<P, C> {
        &self.raw
    }
}
