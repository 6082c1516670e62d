// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Process`: the threads of a process that knows nothing of Overlock.
//!
//! The clauses of the platform's contract hold as for [`Threads`], except for these:
//!
//! | clause | answer |
//! |---|---|
//! | P0 | Releases are read-modify-writes. |
//! | P7, P8 | Numbers are taken back from threads that have ended, without a destructor ([`numbers`](crate::numbers)); slots and the table lie in memory that a forked child does not inherit ([`unforked`](crate::unforked)). |
//! | P11 | None. A cheap release gains nothing behind a call (ARCHITECTURE.md), and a program may forbid itself `membarrier` at any time: a sandbox then kills it, or refuses. |

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot, Threads};

use crate::unforked::{self, UNFORKED};
use crate::{longest, numbers, thread};

/// See the [module documentation](self).
pub(crate) struct Process;

// SAFETY: clause by clause in the tables of this file and of `Threads`.
unsafe impl Platform for Process {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;

    const WAITS: bool = true;
    const YIELDS: bool = true;
    const KICKS_BY_ADDRESS: bool = true;

    type Release = ReadModifyWrite;

    #[inline]
    fn costs() -> Costs {
        Threads::costs().with_spins(thread::this().woken.get() == 0)
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        Threads::fence(order);
    }

    #[inline(always)]
    fn relax() {
        Threads::relax();
    }

    fn nap(ns: u64) {
        longest::halts();
        Threads::nap(ns);
    }

    fn yield_now() {
        longest::halts();
        Threads::yield_now();
    }

    fn cpu() -> Option<Cpu> {
        numbers::current()
    }

    fn slot(cpu: Cpu) -> &'static Slot<Self> {
        unforked::slot(cpu.index())
    }

    fn waiters() -> &'static [Bucket<Self>] {
        &UNFORKED.waiters
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        longest::halts();
        Threads::wait(word, expected, deadline_ns);
    }

    fn kick(word: *const AtomicU32, cpu: Cpu) {
        Threads::kick(word, cpu);
    }

    fn kick_any(word: *const AtomicU32) {
        Threads::kick_any(word);
    }

    fn kick_every(word: *const AtomicU32) {
        Threads::kick_every(word);
    }

    #[inline]
    fn now_ns() -> u64 {
        Threads::now_ns()
    }
}
