//! The memory in which the locks and tables of a run lie: always at the same addresses.
//!
//! Every run lays its locks out from [`BASE`] on in the same order. A process performs one run at a
//! time in this memory ([`Region`]); the thread that performs it has the [`Turn`].

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::MutexGuard;

use crate::engine::Region;

/// Beyond the arena of the other machine.
const BASE: usize = 0x11_0000_0000;
const SIZE: usize = 64 << 20;

static REGION: Region = Region::new(BASE, SIZE);

thread_local! {
    /// How many bytes this thread's run uses; `None` if the thread does not have the turn.
    static USED: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Debug)]
pub(crate) struct Turn {
    _alone: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits until no other thread performs a run.
    pub(crate) fn take() -> Self {
        let alone = REGION.take();
        USED.set(Some(0));
        Self { _alone: alone }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        USED.set(None);
    }
}

/// Memory for the rest of the turn. `None` if this thread has no turn, or no memory is left.
pub(crate) fn take(layout: Layout) -> Option<NonNull<u8>> {
    let used = USED.get()?;
    // Each allocation has at least one line of its own.
    let at = (BASE + used).next_multiple_of(layout.align().max(64));
    let end = at + layout.size() - BASE;
    if end > SIZE {
        return None;
    }
    USED.set(Some(end));
    NonNull::new(ptr::with_exposed_provenance_mut(at))
}

/// Puts `count` values side by side, for the rest of the turn. They are never dropped.
///
/// # Panics
/// If this thread has no turn, or the memory is full.
pub(crate) fn put_all<T>(count: usize, mut make: impl FnMut() -> T) -> &'static [T] {
    let layout = Layout::array::<T>(count).expect("a table of a few megabytes");
    let at = take(layout).expect("room for the tables of a run").cast::<T>();
    for index in 0..count {
        // SAFETY: the place is inside the memory just taken, which nothing else uses.
        unsafe { at.add(index).write(make()) };
    }
    // SAFETY: the values are initialised; only shared references are made until the turn ends, and
    // none is used after it, because they live in the machine of the run.
    unsafe { std::slice::from_raw_parts(at.as_ptr(), count) }
}
