// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of a thread, for mutexes that must know their owner.
//!
//! Numbers come from one counter of the process and are never used twice. A thread's number is a
//! plain constant-initialised thread-local: it needs no constructor and no destructor, so it works
//! while a thread starts, in the destructors of other thread-local data, and in a forked child,
//! where the one surviving thread keeps its number and so still owns what it had locked. (The
//! kernel's thread id would change at `fork` and may be given to another thread.)

use core::cell::Cell;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The number of the calling thread.
#[inline]
pub(crate) fn number() -> u64 {
    NUMBER.with(|number| match NonZeroU64::new(number.get()) {
        Some(known) => known.get(),
        None => {
            // Relaxed: the numbers only have to differ.
            number.set(NEXT.fetch_add(1, Relaxed));
            number.get()
        }
    })
}
