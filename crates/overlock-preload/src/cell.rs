//! An atomic cell: real memory, or a model checker's (tests/preload/stamps.rs, numbers.rs).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the [module documentation](self).
pub(crate) trait Cell<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    /// Replaces `current` by `new`, or returns the other value that it found.
    fn compare_exchange(&self, current: T, new: T, success: Ordering) -> Result<T, T>;
}

/// Implements [`Cell`] by atomic types that have the methods of `core`'s.
macro_rules! cells {
    ($($int:ty => $cell:ty),*) => {$(
        impl Cell<$int> for $cell {
            fn load(&self, order: Ordering) -> $int {
                self.load(order)
            }
            fn store(&self, value: $int, order: Ordering) {
                self.store(value, order);
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, Ordering::Relaxed)
            }
        }
    )*};
}
#[allow(unused_imports, reason = "models use it")]
pub(crate) use cells;

cells!(u32 => AtomicU32, u64 => AtomicU64);
