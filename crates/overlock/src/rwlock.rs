// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RwLock<T, P>`: data behind a read-write lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::atomic::ConstAtomic;
use crate::counters::{Class, Uncounted};
use crate::platform::Platform;
use crate::raw::read_write::RawRwLock;
use crate::raw::{RawLock, RawTimedLock};

/// Data that many CPUs can read at a time, or one can write.
///
/// Where both readers and writers wait, they take turns, so neither starve; and a writer that has
/// slept for long goes before writers that come later ([`RawRwLock`] has the bounds). A thread that
/// reads already and reads once more calls [`read_recursive`](Self::read_recursive):
/// [`read`](Self::read) may wait for a writer that waits for it.
///
/// A panic while a guard is alive releases the lock; there is no poisoning.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// use overlock::ThreadRwLock;
///
/// static NAMES: ThreadRwLock<Vec<String>> = ThreadRwLock::new(Vec::new());
///
/// let mut names = NAMES.write();
/// names.push("Ada".to_owned());
/// drop(names);
/// let (one, other) = (NAMES.read(), NAMES.read_recursive());
/// assert_eq!(one[0], other[0]);
/// # }
/// ```
pub struct RwLock<T: ?Sized, P: Platform, C: Class = Uncounted> {
    lock: RawRwLock<P, C>,
    data: UnsafeCell<T>,
}

// SAFETY: readers share the data, so it must be `Sync`; a writer may take it out, so it must be
// `Send`.
unsafe impl<T: ?Sized + Send + Sync, P: Platform, C: Class> Sync for RwLock<T, P, C> {}
// SAFETY: as for any owner of a `T`.
unsafe impl<T: ?Sized + Send, P: Platform, C: Class> Send for RwLock<T, P, C> {}

impl<T, P: Platform, C: Class> RwLock<T, P, C>
where
    P::Word: ConstAtomic<u32>,
{
    /// Puts data behind an unlocked lock.
    pub const fn new(data: T) -> Self {
        Self { lock: RawRwLock::new(), data: UnsafeCell::new(data) }
    }
}

impl<T, P: Platform, C: Class> RwLock<T, P, C> {
    /// Puts data behind this lock, which must be unlocked.
    pub const fn with(lock: RawRwLock<P, C>, data: T) -> Self {
        Self { lock, data: UnsafeCell::new(data) }
    }

    /// Consumes the lock and returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

macro_rules! verbs {
    (
        $guard:ident, $name:ident = $lock:ident, $try:ident = $try_lock:ident,
        $try_until:ident = $try_lock_until:ident, $try_for:ident,
        $(#[$doc:meta])*
    ) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> $guard<'_, T, P, C> {
            self.lock.$lock();
            $guard::new(self)
        }

        /// The same, if it is possible without waiting.
        #[inline]
        #[must_use = "the lock is released at once"]
        pub fn $try(&self) -> Option<$guard<'_, T, P, C>> {
            self.lock.$try_lock().then(|| $guard::new(self))
        }

        /// The same, if it is possible before the platform's clock reads `deadline_ns`, in
        /// nanoseconds ([`now_ns`](Self::now_ns)).
        #[must_use = "the lock is released at once"]
        pub fn $try_until(&self, deadline_ns: u64) -> Option<$guard<'_, T, P, C>> {
            self.lock.$try_lock_until(deadline_ns).then(|| $guard::new(self))
        }

        /// The same, if it is possible within `timeout`. Where the platform's clock stands still,
        /// it waits however long that takes.
        #[must_use = "the lock is released at once"]
        pub fn $try_for(&self, timeout: Duration) -> Option<$guard<'_, T, P, C>> {
            self.$try_until(P::after(timeout))
        }
    };
}

impl<T: ?Sized, P: Platform, C: Class> RwLock<T, P, C> {
    verbs! {
        RwLockReadGuard, read = lock_shared, try_read = try_lock_shared,
        try_read_until = try_lock_shared_until, try_read_for,
        /// Waits until no writer holds the lock, and takes it for reading, until the guard is
        /// dropped.
    }

    verbs! {
        RwLockReadGuard, read_recursive = lock_shared_recursive,
        try_read_recursive = try_lock_shared_recursive,
        try_read_recursive_until = try_lock_shared_recursive_until, try_read_recursive_for,
        /// Takes the lock for reading, past writers that wait: for a thread that may be reading
        /// already, and would wait for a writer that waits for it.
    }

    verbs! {
        RwLockUpgradableGuard, upgradable_read = lock_upgradable,
        try_upgradable_read = try_lock_upgradable,
        try_upgradable_read_until = try_lock_upgradable_until, try_upgradable_read_for,
        /// Takes the lock for reading, with the right to [upgrade](RwLockUpgradableGuard::upgrade).
        /// One at a time can have that; others may read beside it.
    }

    verbs! {
        RwLockWriteGuard, write = lock, try_write = try_lock,
        try_write_until = try_lock_until, try_write_for,
        /// Waits until the lock is free and takes it for writing, until the guard is dropped.
    }

    /// The data, without locking: the exclusive borrow proves that no other CPU can reach it.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    /// Whether the lock is held, for reading or writing. The answer may be out of date by the time
    /// it is returned.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked_at_all()
    }

    /// The clock of the deadlines, in nanoseconds: [`Platform::now_ns`].
    pub fn now_ns() -> u64 {
        P::now_ns()
    }

    /// The lock without the data: for example to release it after a guard was forgotten.
    pub fn raw(&self) -> &RawRwLock<P, C> {
        &self.lock
    }
}

impl<T: ?Sized + fmt::Debug, P: Platform, C: Class> fmt::Debug for RwLock<T, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => d.field("data", &&*guard),
            None => d.field("data", &format_args!("<locked>")),
        };
        d.finish()
    }
}

impl<T: Default, P: Platform, C: Class> Default for RwLock<T, P, C>
where
    P::Word: ConstAtomic<u32>,
{
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, P: Platform, C: Class> From<T> for RwLock<T, P, C>
where
    P::Word: ConstAtomic<u32>,
{
    fn from(data: T) -> Self {
        Self::new(data)
    }
}

macro_rules! guards {
    ($($(#[$doc:meta])* $name:ident, released by $unlock:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// It is not `Send`: a lock is released by the CPU that took it.
        #[must_use = "dropping the guard releases the lock"]
        pub struct $name<'a, T: ?Sized, P: Platform, C: Class = Uncounted> {
            lock: &'a RwLock<T, P, C>,
            here: PhantomData<*const ()>,
        }

        // SAFETY: a shared guard gives only shared access to the data.
        unsafe impl<T: ?Sized + Sync, P: Platform, C: Class> Sync for $name<'_, T, P, C> {}

        impl<'a, T: ?Sized, P: Platform, C: Class> $name<'a, T, P, C> {
            fn new(lock: &'a RwLock<T, P, C>) -> Self {
                Self { lock, here: PhantomData }
            }
        }

        impl<T: ?Sized, P: Platform, C: Class> Deref for $name<'_, T, P, C> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the guard exists only while its lock is held, so no other CPU reaches the
                // data mutably.
                unsafe { &*self.lock.data.get() }
            }
        }

        impl<T: ?Sized, P: Platform, C: Class> Drop for $name<'_, T, P, C> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the guard was created by taking the lock so, and is dropped once.
                unsafe { self.lock.lock.$unlock() };
            }
        }

        impl<T: ?Sized + fmt::Debug, P: Platform, C: Class> fmt::Debug for $name<'_, T, P, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display, P: Platform, C: Class> fmt::Display for $name<'_, T, P, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    )*};
}

guards! {
    /// The right to read the data of an [`RwLock`], beside others; dropping it releases the lock.
    RwLockReadGuard, released by unlock_shared;
    /// The right to read the data of an [`RwLock`], beside readers, and to upgrade; dropping it
    /// releases the lock.
    RwLockUpgradableGuard, released by unlock_upgradable;
    /// The right to write the data of an [`RwLock`]; dropping it releases the lock.
    RwLockWriteGuard, released by unlock;
}

impl<T: ?Sized, P: Platform, C: Class> DerefMut for RwLockWriteGuard<'_, T, P, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held for writing, and the guard itself is borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<'a, T: ?Sized, P: Platform, C: Class> RwLockWriteGuard<'a, T, P, C> {
    /// Goes on reading, without writing; no writer comes in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T, P, C> {
        let lock = ManuallyDrop::new(guard).lock;
        // SAFETY: the guard held the lock for writing, and is not dropped.
        unsafe { lock.lock.downgrade() };
        RwLockReadGuard::new(lock)
    }

    /// Goes on reading with the right to upgrade; no writer comes in between.
    pub fn downgrade_to_upgradable(guard: Self) -> RwLockUpgradableGuard<'a, T, P, C> {
        let lock = ManuallyDrop::new(guard).lock;
        // SAFETY: the guard held the lock for writing, and is not dropped.
        unsafe { lock.lock.downgrade_to_upgradable() };
        RwLockUpgradableGuard::new(lock)
    }
}

impl<'a, T: ?Sized, P: Platform, C: Class> RwLockUpgradableGuard<'a, T, P, C> {
    /// Waits until no other CPU reads, and takes the lock for writing; no writer comes in between.
    ///
    /// ```
    /// # #[cfg(feature = "threads")] {
    /// use overlock::{RwLockUpgradableGuard, ThreadRwLock};
    ///
    /// let cache = ThreadRwLock::new(None);
    /// let seen = cache.upgradable_read();
    /// if seen.is_none() {
    ///     *RwLockUpgradableGuard::upgrade(seen) = Some(42);
    /// }
    /// assert_eq!(*cache.read(), Some(42));
    /// # }
    /// ```
    pub fn upgrade(guard: Self) -> RwLockWriteGuard<'a, T, P, C> {
        let lock = ManuallyDrop::new(guard).lock;
        // SAFETY: the guard held the lock as upgradable, and is not dropped.
        unsafe { lock.lock.upgrade() };
        RwLockWriteGuard::new(lock)
    }

    /// [`upgrade`](Self::upgrade), if it is possible without waiting.
    ///
    /// # Errors
    /// The guard, if others read.
    pub fn try_upgrade(guard: Self) -> Result<RwLockWriteGuard<'a, T, P, C>, Self> {
        // SAFETY: the guard holds the lock as upgradable.
        let upgraded = unsafe { guard.lock.lock.try_upgrade() };
        Self::upgraded(guard, upgraded)
    }

    /// [`upgrade`](Self::upgrade), if it is possible before the platform's clock reads
    /// `deadline_ns`, in nanoseconds.
    ///
    /// # Errors
    /// The guard, if others still read then.
    pub fn try_upgrade_until(
        guard: Self,
        deadline_ns: u64,
    ) -> Result<RwLockWriteGuard<'a, T, P, C>, Self> {
        // SAFETY: the guard holds the lock as upgradable.
        let upgraded = unsafe { guard.lock.lock.try_upgrade_until(deadline_ns) };
        Self::upgraded(guard, upgraded)
    }

    fn upgraded(guard: Self, is: bool) -> Result<RwLockWriteGuard<'a, T, P, C>, Self> {
        if is { Ok(RwLockWriteGuard::new(ManuallyDrop::new(guard).lock)) } else { Err(guard) }
    }

    /// Goes on reading, without the right to upgrade.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T, P, C> {
        let lock = ManuallyDrop::new(guard).lock;
        // SAFETY: the guard held the lock as upgradable, and is not dropped.
        unsafe { lock.lock.downgrade_upgradable() };
        RwLockReadGuard::new(lock)
    }
}
