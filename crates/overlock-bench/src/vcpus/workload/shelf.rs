//! A row of values that lies where the world decides.

use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::Verbs;

/// Values that never change their addresses. Those in the world's own memory are never dropped.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    first: NonNull<T>,
    count: usize,
    /// The values, if the world does not decide where they lie.
    _own: Vec<T>,
}

// SAFETY: it gives out shared references to its values, and nothing else.
unsafe impl<T: Sync> Sync for Shelf<T> {}

impl<T> Shelf<T> {
    pub(crate) fn new<W: Verbs>(count: usize, make: impl Fn() -> T) -> Self {
        let placed = Layout::array::<T>(count).ok().and_then(W::memory);
        let Some(first) = placed.map(NonNull::cast::<T>) else {
            let own: Vec<T> = (0..count).map(|_| make()).collect();
            let first = NonNull::from(own.as_slice()).cast();
            return Self { first, count, _own: own };
        };
        for index in 0..count {
            // SAFETY: the place is inside the memory that the world has just given away.
            unsafe { first.add(index).write(make()) };
        }
        Self { first, count, _own: Vec::new() }
    }
}

impl<T> Deref for Shelf<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` has made `count` values there, which stay there until the run is over: in
        // the vector, which is never changed, or in memory that nothing else uses.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}
