//! Whether the sequences of this process are armed.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicIsize};

/// The offset of a thread's `struct rseq` from its thread pointer; zero if sequences are not armed.
pub(super) static ARMED: AtomicIsize = AtomicIsize::new(0);

/// Whether sequences must stay unarmed.
pub(super) static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Keeps sequences unarmed from now on.
pub(crate) fn forbid() {
    FORBIDDEN.store(true, Relaxed);
}

/// Whether this process uses restartable sequences.
pub(crate) fn is_armed() -> bool {
    ARMED.load(Relaxed) != 0
}
