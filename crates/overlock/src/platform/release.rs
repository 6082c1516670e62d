// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releasing an uncontended lock without an atomic read-modify-write.
//!
//! A release must give the lock away and learn whether anybody waits, in one access (F4). A
//! read-modify-write does both, and is half of what an uncontended lock costs. A platform whose
//! kernel can cut a short sequence of instructions off can do it by a comparison and a store
//! instead, and leave the cost to the waiter that is about to halt:
//!
//! ```text
//!   release                              queue head
//!   sequence: upper half == 0?           A   CAS word: set HALTED, held
//!             low byte = 0               B   membarrier
//!                                        C   still held? halt : take it
//! ```
//!
//! If the comparison came before A, the sequence has stored when B returns, and C sees that; or it
//! never stores. If it came after A, it found a queue in the upper half and the release is a
//! read-modify-write, which sees `HALTED`.
//!
//! The store is one byte wide, but no access of two widths to the same memory exists in Rust's
//! abstract machine: at the moment at which it commits, the other bytes are what memory holds, so
//! the sequence *is* `fetch_and(!0xff, Release)`, refused if the upper half was not zero a moment
//! before. Nor is a compare-exchange of half the word one: it is `fetch_or(1, Acquire)`, refused if
//! the lower half was not zero.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Platform;
use crate::atomic::Atomic;

/// How a platform takes and releases a lock that nobody waits for (P11).
///
/// On x86-64, a load of bytes that a locked instruction has just written waits until that
/// instruction is done: a third of an uncontended pair. So the two operations on words share them
/// out: taking changes the lower half only, and releasing looks at the upper half only.
pub trait CheapRelease<P: Platform> {
    /// Whether the operations ever store. Where [`Platform::WAITS`] does not hold, a lock that is
    /// released does not compile with it.
    const EXISTS: bool = false;

    /// `fetch_or(1, Acquire)` on `word`, in one step, if its lower half is zero. Returns whether it
    /// did. Where the upper half is not zero it may refuse, as the default does; where
    /// [`EXISTS`](Self::EXISTS) does not hold, it must.
    #[inline(always)]
    #[track_caller]
    fn set_lowest_bit(word: &P::Word) -> bool {
        // ORDERING: Acquire, for the caller (O1).
        word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// `fetch_and(!0xff, Release)` on `word` if its upper half is zero, in two steps (P11). Returns
    /// whether it did; it may refuse for no reason, as the default does.
    #[inline(always)]
    #[track_caller]
    fn clear_low_byte(_word: &P::Word) -> bool {
        false
    }

    /// `fetch_add(n, Release)` on `cell` unless one of the bits `unless` is set, likewise.
    #[inline(always)]
    #[track_caller]
    fn add_half(_cell: &P::Half, _n: u16, _unless: u16) -> bool {
        false
    }

    /// Cuts off the operations that are under way (P11): every one that begins later sees what this
    /// CPU wrote before, and this CPU sees what those stored that ended before. Returns false if it
    /// can't, as the default does: then they must be taken to go on.
    #[inline]
    fn membarrier() -> bool {
        false
    }
}

/// Releases by atomic read-modify-writes only.
#[derive(Clone, Copy, Debug)]
pub struct ReadModifyWrite;

impl<P: Platform> CheapRelease<P> for ReadModifyWrite {}
