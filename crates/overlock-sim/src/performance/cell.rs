// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomic cell of a simulated host: each access takes as long as its cache line costs.
//!
//! All vCPUs of a run share one OS thread and see each other's accesses in the order of their
//! times. So memory is sequentially consistent whatever ordering is asked for; an ordering only
//! costs time.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use overlock::atomic::{Atomic, ConstAtomic};

use super::machine::{Machine, calls};
use crate::atomic_cell::{Access, atomic_cells};

/// An atomic cell holding a `T`.
#[repr(transparent)]
pub struct Timed<T>(Cell<T>);

impl<T> std::fmt::Debug for Timed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timed").finish_non_exhaustive()
    }
}

// SAFETY: the vCPUs of a run are coroutines of one OS thread, which also creates and drops the
// program. Other code can use a cell only as a vCPU (`with` checks that), or sees it before or
// after the run.
unsafe impl<T: Send> Sync for Timed<T> {}

impl<T: Default> Default for Timed<T> {
    fn default() -> Self {
        Self(Cell::new(T::default()))
    }
}

impl<T: Copy + PartialEq> Timed<T> {
    const fn holding(value: T) -> Self {
        Self(Cell::new(value))
    }

    fn act(&self, kind: Access, order: Ordering, change: impl FnOnce(T) -> Option<T>) -> T {
        let old = Cell::new(self.0.get());
        let act = || {
            old.set(self.0.get());
            let new = change(old.get());
            if let Some(new) = new {
                self.0.set(new);
            }
            new.is_some_and(|new| new != old.get())
        };
        if calls::is_on_host() {
            act();
        } else {
            let ns = |m: &Machine<'_>| m.order_ns(kind, order);
            calls::access(std::ptr::from_ref(self).addr(), kind, ns, act);
        }
        old.get()
    }
}

atomic_cells!(Timed; u8, u16, u32);
