//! `Lazy`: a value that its first user computes.

use core::cell::Cell;
use core::fmt;
use core::ops::Deref;

use crate::Once;

/// A value that is computed when it is first used.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// static SQUARE: overlock_spin::Lazy<u32> = overlock_spin::Lazy::new(|| 5 * 5);
/// assert_eq!(*SQUARE, 25);
/// # }
/// ```
pub struct Lazy<T, F = fn() -> T> {
    value: Once<T>,
    /// Taken by the one call that computes the value.
    compute: Cell<Option<F>>,
}

// SAFETY: only the closure that `value` runs uses `compute`, once, on whichever CPU.
unsafe impl<T, F: Send> Sync for Lazy<T, F> where Once<T>: Sync {}

impl<T, F> Lazy<T, F> {
    /// A value that `compute` will compute.
    pub const fn new(compute: F) -> Self {
        Self { value: Once::new(), compute: Cell::new(Some(compute)) }
    }

    /// A pointer to the value, which may not have been computed.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.value.as_mut_ptr()
    }
}

impl<T, F: FnOnce() -> T> Lazy<T, F> {
    /// Returns the value, and computes it before if that has not been done.
    ///
    /// # Panics
    /// If the closure panics, or has.
    pub fn force(this: &Self) -> &T {
        this.value.call_once(|| match this.compute.take() {
            Some(compute) => compute(),
            None => panic!("the closure of this Lazy has panicked"),
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for Lazy<T, F> {
    type Target = T;

    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: Default> Default for Lazy<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.value.get()).finish()
    }
}
