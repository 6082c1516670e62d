// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomic cell of this world: each access is a step of the machine, and so a point at which the
//! CPU can be taken away.
//!
//! All CPUs share one OS thread and change only at steps, so an access needs no atomic instruction,
//! and memory is sequentially consistent whatever ordering is asked for. Weaker memory is the
//! business of the model checker.

use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::Ordering;

use overlock::atomic::{Atomic, ConstAtomic};

use crate::arena::Arena;
use crate::machine;

/// An atomic cell holding a `T`.
#[repr(transparent)]
pub(crate) struct Word<T>(Cell<T>);

impl<T> std::fmt::Debug for Word<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Word").finish_non_exhaustive()
    }
}

// SAFETY: a cell in use lies in the arena, whose users run one after the other on one OS thread
// each; a cell on its way there has one owner.
unsafe impl<T: Send> Sync for Word<T> {}

impl<T: Copy + Into<u32>> Word<T> {
    /// A cell in the state that it has before a run.
    pub(crate) const fn holding(value: T) -> Self {
        Self(Cell::new(value))
    }

    /// Reads without a step: what the machine itself or an oracle does.
    pub(crate) fn peek(&self) -> T {
        self.0.get()
    }

    pub(crate) fn offset(&self) -> u32 {
        Arena::offset((&raw const self.0).addr())
    }

    /// Makes one access: a step, and then `change` of the value, if it says so.
    #[track_caller]
    fn access(&self, change: impl FnOnce(T) -> Option<T>) -> T {
        let site = Location::caller();
        machine::step(site);
        let old = self.0.get();
        let new = change(old);
        if let Some(new) = new {
            self.0.set(new);
        }
        machine::accessed(site, self.offset(), old.into(), new.map(Into::into));
        old
    }
}

macro_rules! cells {
    ($($int:ty),*) => {$(
        impl Atomic<$int> for Word<$int> {
            fn load(&self, _order: Ordering) -> $int {
                self.access(|_| None)
            }
            fn store(&self, value: $int, _order: Ordering) {
                self.access(|_| Some(value));
            }
            fn swap(&self, value: $int, _order: Ordering) -> $int {
                self.access(|_| Some(value))
            }
            fn fetch_add(&self, value: $int, _order: Ordering) -> $int {
                self.access(|old| Some(old.wrapping_add(value)))
            }
            fn fetch_sub(&self, value: $int, _order: Ordering) -> $int {
                self.access(|old| Some(old.wrapping_sub(value)))
            }
            fn fetch_or(&self, value: $int, _order: Ordering) -> $int {
                self.access(|old| Some(old | value))
            }
            fn fetch_and(&self, value: $int, _order: Ordering) -> $int {
                self.access(|old| Some(old & value))
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$int, $int> {
                let old = self.access(|old| (old == current).then_some(new));
                if old == current { Ok(old) } else { Err(old) }
            }
        }

        impl ConstAtomic<$int> for Word<$int> {
            const ZERO: Self = Self::holding(0);
        }
    )*};
}

cells!(u8, u16, u32);
