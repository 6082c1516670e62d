//! `Native`: cores that are never taken away. Locks only spin.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells and the fence of `core::sync::atomic`; releases are read-modify-writes. |
//! | P1 to P4, P10 | `WAITS` is false: never called; a stray `wait` returns at once, a stray `kick` does nothing. |
//! | P6 | The processor's pause instruction. |
//! | P7, P8 | A core has no number here, whichever features are on: queue locks spin without a queue. A kernel that wants `Queued` on bare metal writes its own platform, which knows its cores. |
//! | P9 | The clock stands still, so the deadline of a timed acquisition never passes. |
//!
//! Since cores have no numbers, no waiter joins a queue that a forked child would have to leave.
//! Only the tickets of [`Ticket`](crate::Ticket) stand for waiters that a child does not have.
//! There is no cheap remedy: to give those tickets back, the child would need to know which lock
//! each vanished waiter spins for, and only a CPU with a number has a place to write that.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use super::{Platform, ReadModifyWrite};
use crate::slot::{Cpu, Slot};
use crate::waiters::bucket::Bucket;

/// Cores that are never taken away: spin only. See the [platform contract](super).
///
/// If a process forks while threads wait for a [`Ticket`](crate::Ticket) of this platform, the
/// child's copy of that lock stays locked for ever, because the tickets of the vanished threads are
/// never given back. The other locks work in the child, and so does the `Ticket` of `Threads`,
/// which mends its locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

static SLOT: Slot<AtomicU32> = Slot::new();
static BUCKETS: [Bucket<AtomicU32>; 1] = [Bucket::new()];

// Documented in docs/kernels.md.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Bucket<AtomicU32>>() == 64 && size_of::<Slot<AtomicU32>>() == 256);

// SAFETY: the table above answers the contract clause by clause.
unsafe impl Platform for Native {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;

    const WAITS: bool = false;

    fn cpu() -> Option<Cpu> {
        None
    }

    fn slot(_cpu: Cpu) -> &'static Slot<AtomicU32> {
        &SLOT
    }

    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &BUCKETS
    }

    fn wait(_word: &Self::Word, _expected: u32, _deadline_ns: Option<u64>) {}

    fn kick(_word: *const Self::Word, _cpu: Cpu) {}

    fn now_ns() -> u64 {
        0
    }
}
