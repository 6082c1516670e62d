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
//!   sequence: word == HELD?              A   CAS word: set HALTED, held
//!             low byte = 0               B   membarrier
//!                                        C   still held? halt : take it
//! ```
//!
//! If the comparison came before A, the sequence has stored when B returns, and C sees that; or it
//! never stores. If it came after A, it found more than `HELD` and the release is a
//! read-modify-write, which sees `HALTED`.
//!
//! The store is one byte wide, but no access of two widths to the same memory exists in Rust's
//! abstract machine: at the moment at which it commits, the other bytes are what memory holds, so
//! the sequence *is* `fetch_and(!0xff, Release)`, refused if the word was not `HELD` a moment
//! before.

use super::Platform;

/// How a platform releases a lock that nobody waits for (P11).
pub trait CheapRelease<P: Platform> {
    /// Whether the operations ever store. Where [`Platform::WAITS`] does not hold, a lock that is
    /// released does not compile with it.
    const EXISTS: bool = false;

    /// `fetch_and(!0xff, Release)` on `word` if it holds `expected`, in two steps (P11). Returns
    /// whether it did; it may refuse for no reason, as the default does.
    #[inline(always)]
    #[track_caller]
    fn clear_low_byte(_word: &P::Word, _expected: u32) -> bool {
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
