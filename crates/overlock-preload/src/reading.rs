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

    pub(crate) fn end(&self, lock: usize) {
        // Another thread may have begun it, against the rules.
        self.count.set(self.count.get().saturating_sub(1));
        if let Some(place) = self.locks.iter().find(|place| place.get() == lock) {
            place.set(0);
        }
    }

    /// Whether the thread may be reading this lock.
    pub(crate) fn may_include(&self, lock: usize) -> bool {
        let count = self.count.get();
        let places = || self.locks.iter().filter(|place| place.get() != 0).count();
        count > 0
            && (self.locks.iter().any(|place| place.get() == lock) || count as usize > places())
    }
}
