// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations of an atomic cell, written once for the cells of both machines.

/// What an operation does to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It reads.
    Load,
    /// It writes without reading.
    Store,
    /// It reads and writes in one step.
    ReadModifyWrite,
}

/// Implements `Atomic` and `ConstAtomic` for `$word<$int>`, which has
/// `act(Access, Ordering, FnOnce(T) -> Option<T>) -> T` and `const fn holding(T)`.
macro_rules! atomic_cells {
    ($word:ident; $($int:ty),*) => {$(
        impl Atomic<$int> for $word<$int> {
            fn load(&self, order: Ordering) -> $int {
                self.act(Access::Load, order, |_| None)
            }
            fn store(&self, value: $int, order: Ordering) {
                self.act(Access::Store, order, |_| Some(value));
            }
            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |_| Some(value))
            }
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old.wrapping_add(value)))
            }
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old.wrapping_sub(value)))
            }
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old | value))
            }
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old & value))
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                _failure: Ordering,
            ) -> Result<$int, $int> {
                let take = |old| (old == current).then_some(new);
                let old = self.act(Access::ReadModifyWrite, success, take);
                if old == current { Ok(old) } else { Err(old) }
            }
        }

        impl ConstAtomic<$int> for $word<$int> {
            const ZERO: Self = Self::holding(0);
        }
    )*};
}
pub(crate) use atomic_cells;
