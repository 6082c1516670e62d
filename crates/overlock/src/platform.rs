// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platform: what a lock needs to know about the world it runs in.
//!
//! A lock is generic over one [`Platform`] and touches the machine nowhere else. A platform defines
//! what an atomic word is, how to pause while spinning, which CPU is running, what time it is, how
//! a CPU halts ([`Platform::wait`]), and how another CPU calls it back ([`Platform::kick`]). A
//! "CPU" is anything that can be taken away: a core, a vCPU, a thread.
//!
//! # The contract
//!
//! Each platform's file answers these clauses one by one, and `tests/contract.rs` is organised by
//! clause.
//!
//! | | clause |
//! |---|---|
//! | P0 | A `Byte`, `Half` or `Word` behaves as the cell of `core::sync::atomic` that has its width ([`Atomic`]), and `fence` as the fence there. An operation of [`CheapRelease`] that returns true has done what its documentation says, and nothing else; one that returns false has changed nothing. |
//! | P1 | `wait(word, expected, ..)` returns at once if `word` does not hold `expected`. |
//! | P2 | `wait` may return spuriously at any time; the caller checks its condition again. |
//! | P3 | A `kick` that follows a change of `word` is never lost: it ends a `wait` on the old value, whether that `wait` has checked, is about to sleep, or sleeps; and what the kicker wrote before is visible to the CPU that the `kick` wakes. |
//! | P4 | Kicking a CPU that is running, waits for something else, or no longer exists is harmless. |
//! | P5 | `yield_now` returns without a kick. |
//! | P6 | `relax` never blocks. |
//! | P7 | `cpu` returns the same number throughout one lock operation, no two CPUs have the same number at the same time, and `cpu() < MAX_CPUS`. |
//! | P8 | `slot(cpu)` is the same slot for the same number, and `waiters()` the same table for all CPUs that share a lock. Both were made of cells that held zero. |
//! | P9 | `now_ns` never goes backwards on one CPU; between CPUs it may differ by a few microseconds. Where it stands still, no deadline passes. |
//! | P10 | Where `WAITS` is false, or `waits()` returns false, no lock ever calls `wait`. |
//! | P11 | The releases of [`CheapRelease`] load and store in two steps. Once `membarrier` has returned true to a CPU, no release that missed what that CPU wrote before the call can still store: neither one on another CPU, nor one that the caller itself has interrupted. |
//! | P12 | The notes of a [`Bias`] are made and unmade in two steps, of which `membarrier` cuts off those under way, as in P11. |

use core::sync::atomic::Ordering;

use crate::atomic::Atomic;
pub use crate::slot::{Cpu, LEVELS, Slot};
pub use crate::waiters::Bucket;

mod bias;
mod costs;
mod native;
mod release;
#[cfg(all(feature = "threads", target_os = "linux"))]
mod shared;
#[cfg(all(feature = "threads", target_os = "linux"))]
mod threads;

pub use bias::{Bias, BiasPace, Unbiased};
pub use costs::Costs;
pub use native::Native;
pub use release::{CheapRelease, ReadModifyWrite};
#[cfg(all(feature = "threads", target_os = "linux"))]
pub use shared::Shared;
#[cfg(all(feature = "threads", target_os = "linux"))]
pub use threads::{Threads, readers::Biased};
#[cfg(all(feature = "threads", target_os = "linux"))]
#[doc(hidden)]
pub use threads::{clock, errno::keep_errno, maps, report, syscall};

/// The most CPUs a platform may number: what fits in the 16-bit tail of a lock word beside two bits
/// of nesting level.
pub const MAX_CPUS: usize = (1 << 14) - 1;

/// The world a lock runs in. See the [module documentation](self) for the contract.
///
/// # Safety
/// An implementation keeps clauses P0 to P11. The locks' mutual exclusion rests on P0, P7 and P8;
/// their progress rests on P1, P3 and P11.
pub unsafe trait Platform: Sized + 'static {
    /// An 8-bit cell.
    type Byte: Atomic<u8>;
    /// A 16-bit cell.
    type Half: Atomic<u16>;
    /// A 32-bit cell.
    type Word: Atomic<u32>;

    /// Whether a CPU of this platform can be taken away, so that halting may pay better than
    /// spinning.
    ///
    /// Where this is `false`, the compiler drops every slow path that waits or kicks.
    const WAITS: bool;

    /// Whether [`kick_any`](Self::kick_any) finds a waiter by the address of the word it waits on.
    /// Locks that halt on their own word then need neither CPU numbers nor the table of waiters.
    const KICKS_BY_ADDRESS: bool = false;

    /// How this platform releases an uncontended lock without an atomic read-modify-write;
    /// [`ReadModifyWrite`] where it can't.
    type Release: CheapRelease<Self>;

    /// Whether [`yield_now`](Self::yield_now) gives the processor to another CPU that can run.
    const YIELDS: bool = false;

    /// Whether [`waits`](Self::waits) is a branch that is patched in the code, and so costs next to
    /// nothing. Then every unlock asks it, and while waiting is switched off executes what it does
    /// on a platform that never waits. Elsewhere most unlocks check for halted waiters even then:
    /// the check is cheaper than the question.
    const WAITS_IS_PATCHED: bool = false;

    /// What waiting costs in this world. It may change at any time.
    #[inline(always)]
    fn costs() -> Costs {
        Costs::DEFAULT
    }

    /// Whether waiting is switched on now: the run-time choice that S1 calls `nopvspin`.
    ///
    /// Slow paths call it, and so does the unlock of [`Ticket`](crate::Ticket), once; where
    /// [`WAITS_IS_PATCHED`](Self::WAITS_IS_PATCHED), the unlock of every lock does. The answer may
    /// change only while no lock of the platform is held or waited for.
    #[inline(always)]
    fn waits() -> bool {
        Self::WAITS
    }

    /// A memory fence.
    #[track_caller]
    fn fence(order: Ordering);

    /// Tells the processor that this is a spin loop (P6).
    fn relax();

    /// Gives this CPU up for about `ns` nanoseconds, for a waiter that can't be kicked because it
    /// has no number or the table of waiters is full. The default only pauses.
    #[inline]
    fn nap(_ns: u64) {
        Self::relax();
    }

    /// Yields this processor to another CPU that can run but has none; returns soon if there is no
    /// such CPU. The default does nothing; see [`YIELDS`](Self::YIELDS).
    #[inline]
    fn yield_now() {}

    /// The number of this CPU (P7), or `None` if it has none; locks then spin without a queue node.
    fn cpu() -> Option<Cpu>;

    /// The record of CPU number `cpu` (P8).
    fn slot(cpu: Cpu) -> &'static Slot<Self>;

    /// The table of halted CPUs (P8). It is not empty, ideally has a power of two of buckets, and
    /// has a few entries for each CPU in total.
    fn waiters() -> &'static [Bucket<Self>];

    /// Halts this CPU while `word` holds `expected`, until it is kicked or `now_ns()` reaches
    /// `deadline_ns` (P1 to P3).
    fn wait(word: &Self::Word, expected: u32, deadline_ns: Option<u64>);

    /// Kicks CPU number `cpu`, which may be waiting on `word`, a word of its own slot (P3, P4).
    fn kick(word: *const Self::Word, cpu: Cpu);

    /// Kicks one CPU that waits on `word`, if any does (P3, P4). Only the address of `word` is
    /// used: its memory may be gone.
    ///
    /// Never called unless [`KICKS_BY_ADDRESS`](Self::KICKS_BY_ADDRESS) holds.
    fn kick_any(_word: *const Self::Word) {}

    /// Kicks all CPUs that wait on `word`. As for [`kick_any`](Self::kick_any), only the address is
    /// used.
    fn kick_every(_word: *const Self::Word) {}

    /// A clock in nanoseconds (P9).
    fn now_ns() -> u64;
}
