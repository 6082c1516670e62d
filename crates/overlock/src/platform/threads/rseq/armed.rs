// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the sequences of this process are armed.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicIsize};

/// The offset of a thread's `struct rseq` from its thread pointer; zero if sequences are not armed.
pub(super) static ARMED: AtomicIsize = AtomicIsize::new(0);

/// Whether sequences must stay unarmed.
pub(super) static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Whether the system has refused to cut sequences off, so that no lock should be biased.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Keeps sequences unarmed from now on.
pub(crate) fn forbid() {
    FORBIDDEN.store(true, Relaxed);
}

/// Has no lock biased from now on.
pub(super) fn give_no_more_bias() {
    REFUSED.store(true, Relaxed);
}

/// Whether locks should be biased.
pub(crate) fn gives_bias() -> bool {
    is_armed() && !REFUSED.load(Relaxed)
}

/// Whether this process uses restartable sequences.
pub(crate) fn is_armed() -> bool {
    ARMED.load(Relaxed) != 0
}
