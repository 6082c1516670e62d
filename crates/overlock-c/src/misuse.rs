// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program may not do, and these locks let pass.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static UNLOCKS_OF_FREE: AtomicU64 = AtomicU64::new(0);

const MESSAGE: &[u8] = b"overlock: a lock was unlocked that nobody held; \
    a breakpoint on ol_unlock_of_free finds the place (said once)\n";

/// Notices that a lock was unlocked that nobody held, which is left free. Counts it, and says it
/// the first time. `errno` stays.
#[unsafe(no_mangle)]
pub extern "C" fn ol_unlock_of_free() {
    if UNLOCKS_OF_FREE.fetch_add(1, Relaxed) > 0 {
        return;
    }
    // SAFETY: this thread's errno, valid for its life.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else accesses it.
    let saved = unsafe { *errno };
    // SAFETY: the bytes are valid to read. If standard error is a pipe that nobody reads, this
    // raises SIGPIPE, as any message of the program would.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// How often that has happened.
pub(crate) fn unlocks_of_free() -> u64 {
    UNLOCKS_OF_FREE.load(Relaxed)
}
