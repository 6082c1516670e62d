//! Buckets: the memory of the table of waiters.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::{Atomic, ConstAtomic};
use crate::slot::NodeId;

const ENTRIES: usize = 16;

/// A cache line of the table. A platform keeps a `static` array of buckets for all its locks.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bucket<W> {
    entries: [W; ENTRIES],
}

impl<W: ConstAtomic<u32>> Bucket<W> {
    /// An empty bucket.
    pub const fn new() -> Self {
        Self { entries: [const { W::ZERO }; ENTRIES] }
    }
}

impl<W: ConstAtomic<u32>> Default for Bucket<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Atomic<u32>> Bucket<W> {
    /// The number of entries in a bucket, which come first in it. A CPU that needs an entry and
    /// finds none free naps instead of halting.
    pub const ENTRIES: usize = ENTRIES;

    /// An empty bucket whose [`ENTRIES`](Self::ENTRIES) cells are created at run time.
    pub fn with(mut cell: impl FnMut() -> W) -> Self {
        Self { entries: core::array::from_fn(|_| cell()) }
    }

    /// Enters `waiter` with this tag. Returns false if the bucket is full.
    #[must_use]
    pub(super) fn insert(&self, tag: u32, waiter: NodeId) -> bool {
        self.entries.iter().any(|cell| {
            cell.load(Relaxed) == 0
                && cell.compare_exchange(0, entry(tag, waiter), Relaxed, Relaxed).is_ok()
        })
    }

    /// Removes the entry that [`insert`](Self::insert) made.
    pub(super) fn remove(&self, tag: u32, waiter: NodeId) {
        let entry = entry(tag, waiter);
        if let Some(cell) = self.entries.iter().find(|cell| cell.load(Relaxed) == entry) {
            cell.store(0, Relaxed);
        }
    }

    pub(super) fn find(&self, tag: u32) -> impl Iterator<Item = NodeId> {
        self.entries.iter().filter_map(move |cell| {
            let entry = cell.load(Relaxed);
            if entry >> 16 == tag { NodeId::decode(entry & 0xffff) } else { None }
        })
    }

    /// Removes the entries of all waiters for which `exists` returns false.
    #[cfg(feature = "threads")]
    pub(crate) fn retain(&self, exists: impl Fn(NodeId) -> bool) {
        for cell in &self.entries {
            if NodeId::decode(cell.load(Relaxed) & 0xffff).is_some_and(|waiter| !exists(waiter)) {
                cell.store(0, Relaxed);
            }
        }
    }
}

fn entry(tag: u32, waiter: NodeId) -> u32 {
    tag << 16 | waiter.code()
}
