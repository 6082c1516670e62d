//! Memory that is always at the same addresses.
//!
//! Locks hash their own address. To make a run a function of its seed, whichever process or thread
//! repeats it, every run finds its memory at a fixed address and lays it out in the same order.

use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A range of addresses, of which this process has the only one.
#[derive(Debug)]
pub(crate) struct Region {
    base: usize,
    size: usize,
    turn: Mutex<()>,
    mapped: OnceLock<()>,
}

impl Region {
    pub(crate) const fn new(base: usize, size: usize) -> Self {
        Self { base, size, turn: Mutex::new(()), mapped: OnceLock::new() }
    }

    /// Waits until no other run uses the memory, which then belongs to the guard's owner. It is
    /// mapped, and has what the last run left there.
    ///
    /// # Panics
    /// If the system refuses the memory.
    pub(crate) fn take(&'static self) -> MutexGuard<'static, ()> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.mapped.get_or_init(|| self.map());
        turn
    }

    fn map(&self) {
        let Self { base, size, .. } = *self;
        let (write, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_FIXED_NOREPLACE
                | libc::MAP_NORESERVE,
        );
        // SAFETY: this makes a new mapping that replaces none.
        let got =
            unsafe { libc::mmap(ptr::without_provenance_mut(base), size, write, flags, -1, 0) };
        assert!(
            got.expose_provenance() == base,
            "can't map {size} bytes at {base:#x}, where runs repeat exactly: {}",
            std::io::Error::last_os_error()
        );
    }
}
