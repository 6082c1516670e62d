//! `RwLock`, and its guards: those of `lock_api` under `spin`'s names, with its methods.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

use lock_api_crate as api;

use crate::RawRwLock;

/// Data that many CPUs can read at a time, or one can write.
///
/// A CPU that reads may read again while a writer waits, as under `spin`. So readers that always
/// overlap keep writers out.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// static TABLE: overlock_spin::RwLock<u32> = overlock_spin::RwLock::new(0);
/// let entry = TABLE.upgradeable_read();
/// *entry.upgrade() += 1;
/// assert_eq!(*TABLE.read() + *TABLE.read(), 2);
/// # }
/// ```
#[derive(Default)]
pub struct RwLock<T: ?Sized>(api::RwLock<RawRwLock, T>);

/// The right to read an [`RwLock`]'s data.
pub struct RwLockReadGuard<'a, T: ?Sized>(api::RwLockReadGuard<'a, RawRwLock, T>);

/// The right to write an [`RwLock`]'s data.
pub struct RwLockWriteGuard<'a, T: ?Sized>(api::RwLockWriteGuard<'a, RawRwLock, T>);

/// The right to read an [`RwLock`]'s data beside readers, and to become its writer.
pub struct RwLockUpgradableGuard<'a, T: ?Sized>(api::RwLockUpgradableReadGuard<'a, RawRwLock, T>);

impl<T> RwLock<T> {
    /// Puts data behind an unlocked lock.
    pub const fn new(data: T) -> Self {
        Self(api::RwLock::new(data))
    }

    /// Consumes the lock and returns the data.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds the lock, and takes it for reading.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read_recursive())
    }

    /// The same, if it is possible without waiting.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read_recursive().map(RwLockReadGuard)
    }

    /// Waits until no other CPU holds the lock, and takes it for writing.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write())
    }

    /// The same, if it is possible without waiting.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().map(RwLockWriteGuard)
    }

    /// Waits until no writer and no other upgradable reader holds the lock, and takes it to read
    /// and perhaps to write.
    #[inline]
    pub fn upgradeable_read(&self) -> RwLockUpgradableGuard<'_, T> {
        RwLockUpgradableGuard(self.0.upgradable_read())
    }

    /// The same, if it is possible without waiting.
    #[inline]
    pub fn try_upgradeable_read(&self) -> Option<RwLockUpgradableGuard<'_, T>> {
        self.0.try_upgradable_read().map(RwLockUpgradableGuard)
    }

    /// Returns the data, which the caller has alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// A pointer to the data.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.0.data_ptr()
    }

    /// Releases a reader whose guard was leaked.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn force_read_decrement(&self) {
        // SAFETY: the caller's.
        unsafe { self.0.force_unlock_read() };
    }

    /// Releases a writer whose guard was leaked.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn force_write_unlock(&self) {
        // SAFETY: the caller's.
        unsafe { self.0.force_unlock_write() };
    }
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Reads for ever.
    pub fn leak(this: Self) -> &'a T {
        let guard = ManuallyDrop::new(this.0);
        // SAFETY: the reader that is never released keeps writers out.
        unsafe { &*api::RwLockReadGuard::rwlock(&guard).data_ptr() }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard(api::RwLockWriteGuard::downgrade(self.0))
    }

    /// Goes on as an upgradable reader.
    pub fn downgrade_to_upgradeable(self) -> RwLockUpgradableGuard<'a, T> {
        RwLockUpgradableGuard(api::RwLockWriteGuard::downgrade_to_upgradable(self.0))
    }

    /// Writes for ever.
    pub fn leak(this: Self) -> &'a mut T {
        let guard = ManuallyDrop::new(this.0);
        // SAFETY: the writer that is never released keeps all others out.
        unsafe { &mut *api::RwLockWriteGuard::rwlock(&guard).data_ptr() }
    }
}

impl<'a, T: ?Sized> RwLockUpgradableGuard<'a, T> {
    /// Waits until all readers have left, and goes on as the writer.
    pub fn upgrade(self) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard(api::RwLockUpgradableReadGuard::upgrade(self.0))
    }

    /// The same, if it is possible without waiting.
    ///
    /// # Errors
    /// The guard, if others read.
    pub fn try_upgrade(self) -> Result<RwLockWriteGuard<'a, T>, Self> {
        let upgraded = api::RwLockUpgradableReadGuard::try_upgrade(self.0);
        upgraded.map(RwLockWriteGuard).map_err(Self)
    }

    /// Goes on as a reader.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard(api::RwLockUpgradableReadGuard::downgrade(self.0))
    }

    /// Reads for ever, beside readers.
    pub fn leak(this: Self) -> &'a T {
        let guard = ManuallyDrop::new(this.0);
        // SAFETY: the reader that is never released keeps writers out.
        unsafe { &*api::RwLockUpgradableReadGuard::rwlock(&guard).data_ptr() }
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(data: T) -> Self {
        Self::new(data)
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

guards!(RwLockReadGuard, RwLockWriteGuard, RwLockUpgradableGuard);

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
