// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a program that these locks let pass.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static UNLOCKS_OF_FREE: AtomicU64 = AtomicU64::new(0);

const MESSAGE: &[u8] = b"overlock: the program unlocked a lock that no thread held; \
    a breakpoint on ol_unlock_of_free finds the place (reported once)\n";

/// Records that the program unlocked a lock that no thread held; the lock stays free. Counts it,
/// and reports the first time. `errno` is preserved.
#[unsafe(no_mangle)]
pub extern "C" fn ol_unlock_of_free() {
    if UNLOCKS_OF_FREE.fetch_add(1, Relaxed) > 0 {
        return;
    }
    // SAFETY: this thread's errno, valid for its life.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; no other thread accesses it.
    let saved = unsafe { *errno };
    // SAFETY: the bytes are valid to read. If standard error is a pipe without a reader, this
    // raises SIGPIPE, as any message of the program would.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Returns how often that has happened.
pub(crate) fn unlocks_of_free() -> u64 {
    UNLOCKS_OF_FREE.load(Relaxed)
}
