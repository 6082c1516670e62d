//! The atomic cell as a trait, so that one lock source runs on real memory, under a model checker
//! and in a simulator.
//!
//! Every access of a lock goes through [`Atomic`]. Its methods are `#[track_caller]`: a test
//! platform can tell the call sites of a lock apart and weaken the ordering of one of them at a
//! time. On real memory they compile to the one instruction they name.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// An atomic cell holding a `T`; the subset of `core::sync::atomic` that locks need.
///
/// # Safety
/// The semantics of each method and of each [`Ordering`] are those of the method of the same name
/// in `core::sync::atomic` (P0). The locks' mutual exclusion rests on it: a cell that forgets what
/// was stored lets two CPUs hold one lock.
pub unsafe trait Atomic<T>: Send + Sync {
    /// Reads the value.
    #[track_caller]
    fn load(&self, order: Ordering) -> T;
    /// Writes a value.
    #[track_caller]
    fn store(&self, value: T, order: Ordering);
    /// Writes a value and returns the old one.
    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Adds, wrapping around, and returns the old value.
    #[track_caller]
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts, wrapping around, and returns the old value.
    #[track_caller]
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Sets bits and returns the old value.
    #[track_caller]
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Keeps only the given bits and returns the old value.
    #[track_caller]
    fn fetch_and(&self, value: T, order: Ordering) -> T;
    /// Replaces `current` with `new`; never fails spuriously.
    ///
    /// # Errors
    /// The value found, when it was not `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;
}

/// An [`Atomic`] that can be made in a constant, and so in a `static`.
///
/// # Safety
/// [`ZERO`](Self::ZERO) holds zero.
pub unsafe trait ConstAtomic<T>: Atomic<T> {
    /// A cell holding zero.
    const ZERO: Self;
}

macro_rules! real_memory {
    ($($int:ty => $cell:ty),*) => {$(
        // SAFETY: each method is the one of the same name in `core::sync::atomic`.
        unsafe impl Atomic<$int> for $cell {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                self.load(order)
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                self.store(value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.swap(value, order)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.fetch_add(value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.fetch_sub(value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.fetch_or(value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.fetch_and(value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    )*};
}

macro_rules! constants {
    ($($int:ty => $cell:ty),*) => {$(
        // SAFETY: it holds zero.
        unsafe impl ConstAtomic<$int> for $cell {
            const ZERO: Self = Self::new(0);
        }
    )*};
}

real_memory!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32);
constants!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32);
#[cfg(all(test, target_pointer_width = "64"))]
real_memory!(u32 => loom::sync::atomic::AtomicU32);
