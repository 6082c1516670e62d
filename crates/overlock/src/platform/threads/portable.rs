//! What stands in for `rseq.rs` where there are no sequences.

use core::sync::atomic::{AtomicU16, AtomicU32};

use crate::platform::CheapRelease;

/// Releases by read-modify-writes.
#[derive(Clone, Copy, Debug)]
pub struct Sequences;

// SAFETY: the defaults; no sequence is ever under way (P11).
unsafe impl CheapRelease<AtomicU32, AtomicU16> for Sequences {
    fn membarrier() -> bool {
        true
    }
}

pub(super) fn forbid() {}

pub(super) extern "C" fn arm() {}

pub(super) fn is_armed() -> bool {
    false
}
