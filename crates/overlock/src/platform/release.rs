//! Releasing an uncontended lock without an atomic read-modify-write.
//!
//! A release must give the lock away and learn whether anybody waits, in one access (F4). A
//! read-modify-write does both, and is half the cost of an uncontended lock. If the kernel can
//! abort a short sequence of instructions, a comparison and a store do the job instead, and the
//! waiter that is about to halt pays the cost:
//!
//! ```text
//!   release                              queue head
//!   sequence: upper half == 0?           A   CAS word: set HALTED, held
//!             low byte = 0               B   membarrier
//!                                        C   still held? halt : take it
//! ```
//!
//! If the comparison came before A, then by the time B returns the sequence has either stored, and
//! C sees the store, or been cut off and never stores. If it came after A, it found a queue in the
//! upper half, so the release is a read-modify-write, which sees `HALTED`.
//!
//! The store is one byte wide, but Rust's abstract machine contains no access of two widths to the
//! same memory: when the store commits, the other bytes are what memory holds, so the sequence *is*
//! `fetch_and(!0xff, Release)`, refused if the upper half was not zero a moment before. Likewise, a
//! compare-exchange of the lowest byte *is* `fetch_or(1, Acquire)`, refused if that byte was not
//! zero.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::atomic::Atomic;

/// How a platform takes and releases a lock that has no waiters (P11).
///
/// On x86-64, a load of bytes that a locked instruction has just written waits until that
/// instruction is done, and a locked instruction waits for a store of another width to the same
/// bytes: either takes a third to two thirds of an uncontended pair. So both operations on words
/// change the lowest byte and nothing else. The acquisition may look at that byte first, which the
/// last release has stored; the release looks only at the upper half.
///
/// ```compile_fail,E0200
/// use core::sync::atomic::{AtomicU16, AtomicU32};
/// use overlock::platform::CheapRelease;
///
/// struct Mine;
/// impl CheapRelease<AtomicU32, AtomicU16> for Mine {}
/// ```
///
/// # Safety
/// An operation that returns true has done what its documentation says, and nothing else; one that
/// returns false has changed nothing (P0). `membarrier` keeps P11.
pub unsafe trait CheapRelease<W: Atomic<u32>, H: Atomic<u16>> {
    /// Whether the operations ever store. If this is true and [`Platform::WAITS`](super::Platform::WAITS) is false, a
    /// program that releases a lock does not compile.
    const EXISTS: bool = false;

    /// Performs `fetch_or(1, Acquire)` on `word`, in one step, if its lowest byte is zero. Returns
    /// whether it did. It may refuse for no reason. It must refuse if the other bytes are not zero
    /// and [`EXISTS`](Self::EXISTS) is false, as the default does.
    #[inline(always)]
    #[track_caller]
    fn set_lowest_bit(word: &W) -> bool {
        // ORDERING: Acquire, for the caller (O1).
        word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Loads `word`, and if its upper half was zero performs `fetch_and(!0xff, Release)`: in two
    /// steps (P11), so that the upper half may have changed in between. Returns whether it did. It
    /// may refuse for no reason, as the default does.
    #[inline(always)]
    #[track_caller]
    fn clear_low_byte(_word: &W) -> bool {
        false
    }

    /// Loads `cell`, and unless one of the bits `unless` was set stores the sum with `n`, with
    /// Release: in two steps (P11), so that what another CPU has written in between may be lost.
    /// Returns whether it did. It may refuse for no reason, as the default does.
    #[inline(always)]
    #[track_caller]
    fn add_half(_cell: &H, _n: u16, _unless: u16) -> bool {
        false
    }

    /// Cuts off the operations that are under way (P11). An operation that begins later sees what
    /// this CPU wrote before the call, and this CPU sees the stores of those that ended earlier.
    /// Returns false if it can't cut them off, as the default does; the caller must then assume
    /// that they continue.
    #[inline]
    fn membarrier() -> bool {
        false
    }
}

/// Releases by atomic read-modify-writes only.
#[derive(Clone, Copy, Debug)]
pub struct ReadModifyWrite;

// SAFETY: the defaults. Of these only `set_lowest_bit` ever stores, by the compare-exchange that
// its documentation names.
unsafe impl<W: Atomic<u32>, H: Atomic<u16>> CheapRelease<W, H> for ReadModifyWrite {}

/// A cheap release misses waiters that halt, so that a platform on which CPUs never wait has no use
/// for it, and no `membarrier` that would end the race.
#[cfg(doctest)]
mod examples {
    macro_rules! example {
        ($item:ident, $fence:literal, $waits:literal, $lock:literal) => {
            #[doc = concat!("```", $fence, "\nconst WAITS: bool = ", $waits, ";\n")]
            #[doc = include_str!("../../tests/code/cheap.rs")]
            #[doc = concat!("\npair(&", $lock, "::<Mine>::new());\n```")]
            pub struct $item;
        };
    }
    example!(TicketWaits, "", "true", "Ticket");
    example!(HybridWaits, "", "true", "Hybrid");
    example!(TicketNeverWaits, "compile_fail,E0080", "false", "Ticket");
    example!(HybridNeverWaits, "compile_fail,E0080", "false", "Hybrid");
}
