// SPDX-License-Identifier: MIT OR Apache-2.0
//! `errno`, which the pthread functions leave alone.
//!
//! Programs read `errno` of an earlier call after they have unlocked a mutex. libc's own locks
//! never touch it, so ours must not either, although they make system calls that routinely fail
//! (because a futex word has just changed).

/// Restores `errno` on drop to its value at the start.
#[must_use]
pub(crate) struct Preserved(libc::c_int);

impl Preserved {
    /// Remembers `errno`.
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: always points to the calling thread's `errno`.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Preserved {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: always points to the calling thread's `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
