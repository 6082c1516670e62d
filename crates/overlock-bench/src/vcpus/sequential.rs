// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells with stronger ordering than asked for: they show what a lock costs if all its
//! read-modify-writes are sequentially consistent.
//!
//! Linux's paravirtual queued lock was like that before S3, which relaxes the `cmpxchg` of its fast
//! path to acquire. Locks over these cells are the comparator. On x86-64 every read-modify-write is
//! a full barrier anyway and the code is the same; the difference shows on machines with exclusive
//! loads and stores (aarch64: `casal` for `casa`).

use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::SeqCst;

use overlock::atomic::{Atomic, ConstAtomic};

/// A cell whose read-modify-writes are sequentially consistent, whatever ordering the caller asks
/// for.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Sequential<C>(pub C);

macro_rules! sequential {
    ($($verb:ident),*) => {$(
        #[inline(always)]
        fn $verb(&self, value: T, _: Ordering) -> T {
            // ORDERING: that of S3's comparator; it pairs with whatever the caller names.
            self.0.$verb(value, SeqCst)
        }
    )*};
}

// SAFETY: each method is that of the cell inside, with an ordering that is at least the one asked
// for.
unsafe impl<T, C: Atomic<T>> Atomic<T> for Sequential<C> {
    #[inline(always)]
    fn load(&self, order: Ordering) -> T {
        self.0.load(order)
    }

    #[inline(always)]
    fn store(&self, value: T, order: Ordering) {
        self.0.store(value, order);
    }

    sequential!(swap, fetch_add, fetch_sub, fetch_or, fetch_and);

    #[inline(always)]
    fn compare_exchange(&self, current: T, new: T, _: Ordering, failure: Ordering) -> Result<T, T> {
        // ORDERING: as above. A compare-exchange that fails is a load, and keeps its ordering.
        self.0.compare_exchange(current, new, SeqCst, failure)
    }
}

// SAFETY: the cell inside holds zero.
unsafe impl<T, C: ConstAtomic<T>> ConstAtomic<T> for Sequential<C> {
    const ZERO: Self = Self(C::ZERO);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

    /// Records the orderings that reach it.
    #[derive(Default)]
    struct Notes(Mutex<Vec<Ordering>>);

    impl Notes {
        fn note(&self, order: Ordering) -> u32 {
            self.0.lock().unwrap().push(order);
            0
        }
    }

    // SAFETY: no lock is made of these cells.
    unsafe impl Atomic<u32> for Notes {
        fn load(&self, order: Ordering) -> u32 {
            self.note(order)
        }
        fn store(&self, _: u32, order: Ordering) {
            self.note(order);
        }
        fn swap(&self, _: u32, order: Ordering) -> u32 {
            self.note(order)
        }
        fn fetch_add(&self, _: u32, order: Ordering) -> u32 {
            self.note(order)
        }
        fn fetch_sub(&self, _: u32, order: Ordering) -> u32 {
            self.note(order)
        }
        fn fetch_or(&self, _: u32, order: Ordering) -> u32 {
            self.note(order)
        }
        fn fetch_and(&self, _: u32, order: Ordering) -> u32 {
            self.note(order)
        }
        fn compare_exchange(
            &self,
            _: u32,
            _: u32,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u32, u32> {
            self.note(success);
            Err(self.note(failure))
        }
    }

    #[test]
    fn read_modify_writes_are_raised_and_nothing_else_is() {
        let cell = Sequential(Notes::default());
        let _ = (cell.load(Acquire), cell.swap(0, Acquire), cell.fetch_add(0, Relaxed));
        let _ = (cell.fetch_sub(0, AcqRel), cell.fetch_or(0, Release), cell.fetch_and(0, Relaxed));
        cell.store(0, Release);
        let _ = cell.compare_exchange(0, 1, Acquire, Relaxed);
        let seen = cell.0.0.into_inner().unwrap();
        let raised = [SeqCst; 5].into_iter();
        let expected = [Acquire].into_iter().chain(raised).chain([Release, SeqCst, Relaxed]);
        assert!(seen.iter().copied().eq(expected), "{seen:?}");
    }
}
