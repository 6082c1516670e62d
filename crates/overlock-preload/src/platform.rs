//! `Process`: the threads of a process that knows nothing of Overlock.
//!
//! The clauses of the platform's contract hold as for [`Threads`], except for these:
//!
//! | clause | answer |
//! |---|---|
//! | P0 | Releases are read-modify-writes. |
//! | P7, P8 | Numbers are taken back from threads that have ended, without a destructor ([`numbers`](crate::numbers)); slots and the table lie in memory that a forked child does not inherit ([`unforked`](crate::unforked)). |
//! | P11 | None. A cheap release gains nothing behind a call (ARCHITECTURE.md), and a program may forbid itself `membarrier` at any time: a sandbox then kills it, or refuses. |

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot, Threads};

use crate::numbers::{FEW, Numbers};
use crate::unforked::{Unforked, Wiping};
use crate::{longest, thread};

/// The size of the table of halted waiters: a ticket lock enters all of its waiters.
const BUCKETS: usize = 1 << 11;

/// The waiters, none of which a forked child has.
struct Waiters {
    /// Those in queues.
    numbers: Numbers<Slot<AtomicU32>>,
    /// Those that are halted, by lock.
    halted: [Bucket<AtomicU32>; BUCKETS],
}

static WAITERS: Unforked<Waiters> = Unforked::new(Waiters {
    // SAFETY: a new slot is all zeros, and a slot consists of atomic words.
    numbers: unsafe { Numbers::new([const { Slot::new() }; FEW]) },
    halted: [const { Bucket::new() }; BUCKETS],
});

static WIPING: Wiping = Wiping::new();

/// Asks the kernel at the start of the process to clear the waiters in forked children, so that a
/// first wait makes no call that a sandbox may forbid.
pub(crate) fn prepare() {
    WIPING.ask(&WAITERS);
}

/// Takes a number for the calling thread, perhaps before the start: a constructor can wait.
#[cold]
#[inline(never)]
fn take_number() -> Option<Cpu> {
    prepare();
    WAITERS.numbers.take()
}

/// Clears the waiters, in a forked child's only thread, unless the kernel has.
pub(crate) fn clear_in_child() {
    if WIPING.is_kernels() {
        return;
    }
    WAITERS.numbers.clear();
    let halted = WAITERS.halted.as_ptr().cast_mut();
    // SAFETY: no other thread runs, no reference to a bucket is in use here, and a bucket consists
    // of atomic words, all zero in a new one.
    unsafe { core::ptr::write_bytes(halted, 0, BUCKETS) };
}

/// See the [module documentation](self).
pub(crate) struct Process;

// SAFETY: clause by clause in the tables of this file and of `Threads`.
unsafe impl Platform for Process {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;

    const WAITS: bool = true;
    const KICKS_BY_ADDRESS: bool = true;

    type Release = ReadModifyWrite;

    #[inline]
    fn costs() -> Costs {
        Threads::costs().with_spins(thread::this().woken.get() == 0)
    }

    fn nap(ns: u64) {
        longest::halts();
        Threads::nap(ns);
    }

    fn cpu() -> Option<Cpu> {
        WAITERS.numbers.current().or_else(take_number)
    }

    fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
        WAITERS.numbers.record(cpu.index())
    }

    fn in_vain() -> Option<&'static AtomicU32> {
        let cpu = WAITERS.numbers.current()?;
        Some(WAITERS.numbers.record(cpu.index()).in_vain())
    }

    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &WAITERS.halted
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        longest::halts();
        Threads::wait(word, expected, deadline_ns);
    }

    fn wait_as(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        longest::halts();
        Threads::wait_as(word, expected, deadline_ns, classes);
    }

    fn kick(word: *const AtomicU32, cpu: Cpu) {
        Threads::kick(word, cpu);
    }

    fn kick_any_of(word: *const AtomicU32, classes: u32) -> bool {
        Threads::kick_any_of(word, classes)
    }

    fn kick_every_of(word: *const AtomicU32, classes: u32) -> bool {
        Threads::kick_every_of(word, classes)
    }

    #[inline]
    fn now_ns() -> u64 {
        Threads::now_ns()
    }
}
