// SPDX-License-Identifier: MIT OR Apache-2.0
//! The read-write locks that a thread reads, in its record.

use core::cell::Cell;

/// The locks that a thread reads.
#[repr(C)]
pub(crate) struct Reading {
    /// How many, each as often as it reads it.
    count: Cell<u32>,
    /// Those of them that have found a place.
    locks: [Cell<usize>; 4],
}

impl Reading {
    pub(crate) fn begin(&self, lock: usize) {
        self.count.set(self.count.get() + 1);
        if let Some(place) = self.locks.iter().find(|place| place.get() == 0) {
            place.set(lock);
        }
    }

    /// Ends it, unless another thread began it, against the rules.
    pub(crate) fn end(&self, lock: usize) {
        let place = self.locks.iter().find(|place| place.get() == lock);
        if place.is_some() || self.has_some_without_a_place() {
            self.count.set(self.count.get() - 1);
        }
        if let Some(place) = place {
            place.set(0);
        }
    }

    fn has_some_without_a_place(&self) -> bool {
        let places = self.locks.iter().filter(|place| place.get() != 0).count();
        self.count.get() as usize > places
    }

    /// Whether the thread may be reading this lock.
    pub(crate) fn may_include(&self, lock: usize) -> bool {
        self.count.get() > 0
            && (self.locks.iter().any(|place| place.get() == lock)
                || self.has_some_without_a_place())
    }
}
