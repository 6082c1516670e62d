//! What the rounds of a barrier stand on: words, the kernel's futex and the processor.

pub(super) use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::clock::Poll;
use crate::cond::futex;
pub(super) use crate::yields::yield_once;

// The futex word is the half of the state that counts rounds.
const _: () = assert!(cfg!(target_endian = "little"));

/// The half of the state that counts rounds.
fn round_of(state: *const AtomicU64) -> *const AtomicU32 {
    state.cast::<AtomicU32>().wrapping_add(1)
}

/// Sleeps, unless the round of the barrier is another.
pub(super) fn sleep(state: &AtomicU64, round: u32) {
    futex(round_of(state), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, round);
}

pub(super) fn wake_all(state: &AtomicU64) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    futex(round_of(state), operation, i32::MAX as u32);
}

/// Lets threads leave: by a sleep, because they can have a lower real-time priority.
pub(super) fn pause() {
    Poll::new().sleep();
}
