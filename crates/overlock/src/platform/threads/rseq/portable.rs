//! What stands in for the sequences where there are none: nothing is armed, and all is refused.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU16, AtomicU32};

pub(crate) const BUILT: bool = false;

pub(crate) fn arm() {}

pub(crate) fn cut_off() -> bool {
    true
}

pub(crate) fn add_half(_cell: &AtomicU16, _n: u16, _unless: u16) -> bool {
    false
}

#[inline(always)]
pub(crate) fn set_lowest_bit(cell: &AtomicU32) -> bool {
    // ORDERING: Acquire, for the caller (O1).
    cell.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
}

pub(crate) fn clear_low_byte(_cell: &AtomicU32) -> bool {
    false
}
