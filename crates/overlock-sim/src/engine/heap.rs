//! Things and their times: a heap.
//!
//! Equal times are resolved by the order in which the things were added.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something, and the time at which it is due.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    /// How many were added before it.
    order: u64,
    what: T,
}

impl<T> Entry<T> {
    /// Time and order as one number: one comparison without branches.
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.order as u128
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    /// The earliest is the greatest, which is what the heap pops.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Things in the order of their times.
#[derive(Debug)]
pub(super) struct Heap<T> {
    heap: BinaryHeap<Entry<T>>,
    /// How many have been added so far.
    pub(super) added: u64,
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<T> Heap<T> {
    #[inline]
    pub(super) fn add(&mut self, at: u64, what: T) {
        self.added += 1;
        self.heap.push(Entry { at, order: self.added, what });
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|Entry { at, what, .. }| (at, what))
    }

    /// When the first is due; `u64::MAX` if there is none.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |entry| entry.at)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.heap.iter().map(|entry| &entry.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_by_time_and_equals_in_the_order_of_their_adding() {
        let mut heap = Heap::default();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            heap.add(at, what);
        }
        assert_eq!((heap.first(), heap.added, heap.all().count()), (3, 4, 4));
        let order: String = std::iter::from_fn(|| heap.pop()).map(|(_, what)| what).collect();
        assert_eq!((order.as_str(), heap.first()), ("abcd", u64::MAX));
    }
}
