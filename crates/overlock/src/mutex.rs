//! `Mutex<T, L>`: data behind a lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::raw::{ConstLock, RawFairLock, RawLock, RawTimedLock};

/// Data that only the holder of a lock of type `L` can reach.
///
/// A panic while a guard is alive releases the lock; there is no poisoning.
pub struct Mutex<T: ?Sized, L: RawLock> {
    lock: L,
    data: UnsafeCell<T>,
}

// SAFETY: the lock lets only one CPU at a time reach the data, so sharing the mutex does no more
// than move the data between CPUs.
unsafe impl<T: ?Sized + Send, L: RawLock> Sync for Mutex<T, L> {}
// SAFETY: as for any owner of a `T`.
unsafe impl<T: ?Sized + Send, L: RawLock> Send for Mutex<T, L> {}

impl<T, L: ConstLock> Mutex<T, L> {
    /// Puts data behind an unlocked lock.
    pub const fn new(data: T) -> Self {
        Self { lock: L::NEW, data: UnsafeCell::new(data) }
    }
}

impl<T, L: RawLock> Mutex<T, L> {
    /// Puts data behind this lock, which must be unlocked.
    pub const fn with(lock: L, data: T) -> Self {
        Self { lock, data: UnsafeCell::new(data) }
    }

    /// Consumes the mutex and returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized, L: RawLock> Mutex<T, L> {
    /// Waits until the lock is free and takes it, until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, L> {
        self.lock.lock();
        Guard::new(self)
    }

    /// Takes the lock if that is possible without waiting.
    #[inline]
    #[must_use = "the lock is released at once"]
    pub fn try_lock(&self) -> Option<Guard<'_, T, L>> {
        self.lock.try_lock().then(|| Guard::new(self))
    }

    /// The data, without locking: the exclusive borrow proves that no other CPU can reach it.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    /// Whether the lock is held. The answer may be out of date by the time it is returned.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// The lock without the data: for example to release it after a guard was forgotten.
    ///
    /// ```
    /// use overlock::{Mutex, RawLock, Ticket, platform::Native};
    ///
    /// let shared: Mutex<u32, Ticket<Native>> = Mutex::new(1);
    /// core::mem::forget(shared.lock());
    /// assert!(shared.raw().is_locked());
    /// // SAFETY: this thread holds the lock, and its guard is gone.
    /// unsafe { shared.raw().unlock() };
    /// assert_eq!(*shared.lock(), 1);
    /// ```
    pub fn raw(&self) -> &L {
        &self.lock
    }
}

impl<T: ?Sized, L: RawTimedLock> Mutex<T, L> {
    /// Takes the lock if that is possible before the lock's clock reads `deadline_ns`, in
    /// nanoseconds ([`RawTimedLock::now_ns`]).
    #[must_use = "the lock is released at once"]
    pub fn try_lock_until(&self, deadline_ns: u64) -> Option<Guard<'_, T, L>> {
        self.lock.try_lock_until(deadline_ns).then(|| Guard::new(self))
    }

    /// Takes the lock if that is possible within `timeout`. Where the platform's clock stands
    /// still, it waits for the lock however long that takes.
    ///
    /// ```
    /// # #[cfg(feature = "threads")] {
    /// use std::time::Duration;
    ///
    /// use overlock::ThreadMutex;
    ///
    /// static HITS: ThreadMutex<u64> = ThreadMutex::new(0);
    /// let guard = HITS.lock();
    /// assert!(HITS.try_lock_for(Duration::from_millis(1)).is_none());
    /// drop(guard);
    /// assert!(HITS.try_lock_for(Duration::from_millis(1)).is_some());
    /// # }
    /// ```
    #[must_use = "the lock is released at once"]
    pub fn try_lock_for(&self, timeout: Duration) -> Option<Guard<'_, T, L>> {
        self.lock.try_lock_for(timeout).then(|| Guard::new(self))
    }
}

impl<T: ?Sized + fmt::Debug, L: RawLock> fmt::Debug for Mutex<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => d.field("data", &&*guard),
            None => d.field("data", &format_args!("<locked>")),
        };
        d.finish()
    }
}

impl<T: Default, L: ConstLock> Default for Mutex<T, L> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, L: ConstLock> From<T> for Mutex<T, L> {
    fn from(data: T) -> Self {
        Self::new(data)
    }
}

/// The right to reach the data of a [`Mutex`]; dropping it releases the lock.
///
/// It is not `Send`: a lock is released by the CPU that took it.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard<'a, T: ?Sized, L: RawLock> {
    mutex: &'a Mutex<T, L>,
    here: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared access to the data.
unsafe impl<T: ?Sized + Sync, L: RawLock> Sync for Guard<'_, T, L> {}

impl<'a, T: ?Sized, L: RawLock> Guard<'a, T, L> {
    fn new(mutex: &'a Mutex<T, L>) -> Self {
        Self { mutex, here: PhantomData }
    }

    pub(crate) fn lock(guard: &Self) -> &'a L {
        &guard.mutex.lock
    }

    /// Releases the lock so that a waiter is the next to take it, if one sleeps or has joined the
    /// queue: the first in the queue, or else whoever has slept longest. Worth it where a loop
    /// releases and takes one lock all the time.
    ///
    /// It is called as `Guard::unlock_fair(guard)`, so that it hides no method of the data.
    ///
    /// ```
    /// use overlock::{Guard, Hybrid, Mutex, platform::Native};
    ///
    /// let shared: Mutex<u32, Hybrid<Native>> = Mutex::new(0);
    /// let mut guard = shared.lock();
    /// *guard += 1;
    /// Guard::unlock_fair(guard);
    /// assert!(!shared.is_locked());
    /// ```
    #[inline]
    pub fn unlock_fair(guard: Self)
    where
        L: RawFairLock,
    {
        let guard = ManuallyDrop::new(guard);
        // SAFETY: the guard was created by taking the lock, and is not dropped.
        unsafe { guard.mutex.lock.unlock_fair() };
    }
}

impl<T: ?Sized, L: RawLock> Deref for Guard<'_, T, L> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its lock is held, so no other CPU reaches the data
        // mutably.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized, L: RawLock> DerefMut for Guard<'_, T, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard itself is borrowed mutably.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized, L: RawLock> Drop for Guard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was created by taking the lock, and is dropped once.
        unsafe { self.mutex.lock.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug, L: RawLock> fmt::Debug for Guard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, L: RawLock> fmt::Display for Guard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
