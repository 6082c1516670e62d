// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the harness asks of a lock.

/// Something that lets in one thread at a time.
pub(crate) trait Subject: Send + Sync + 'static {
    fn new() -> Self;

    /// Prepares the lock at its final address, for locks that must not move.
    fn init(&self) {}

    /// Runs `section` while holding the lock.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;
}
