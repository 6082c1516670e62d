//! The trait of the worlds that locks run in.

use core::sync::atomic::Ordering;
use core::time::Duration;

use super::costs::Costs;
use super::release::CheapRelease;
use crate::atomic::Atomic;
use crate::slot::{Cpu, Slot};
use crate::waiters::bucket::Bucket;

/// The world a lock runs in. See the [module documentation](super) for the contract.
///
/// # Safety
/// An implementation keeps clauses P0 to P13. The locks' mutual exclusion rests on P0, P7 and P8;
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

    /// Whether [`kick_any_of`](Self::kick_any_of) finds a waiter by the address of the word it waits on.
    /// Locks that halt on their own word then need neither CPU numbers nor the table of waiters.
    const KICKS_BY_ADDRESS: bool = false;

    /// How this platform releases an uncontended lock without an atomic read-modify-write;
    /// [`ReadModifyWrite`](super::ReadModifyWrite) where it can't.
    type Release: CheapRelease<Self::Word, Self::Half>;

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

    /// Runs `take`, which takes the lock of a condition variable that has woken this CPU. The
    /// platform may say meanwhile that this CPU should [not spin](Costs::spins).
    fn without_spinning(take: impl FnOnce()) {
        take();
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

    /// A memory fence. The default is the language's; a machine whose words are no memory has its
    /// own.
    #[track_caller]
    #[inline(always)]
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }

    /// Tells the processor that this is a spin loop (P6).
    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    /// Gives this CPU up for about `ns` nanoseconds, for a waiter that can't be kicked because it
    /// has no number or the table of waiters is full. The default only pauses.
    #[inline]
    fn nap(_ns: u64) {
        Self::relax();
    }

    /// The number of this CPU (P7), or `None` if it has none; locks then spin without a queue node.
    fn cpu() -> Option<Cpu>;

    /// The record of CPU number `cpu` (P8).
    fn slot(cpu: Cpu) -> &'static Slot<Self::Word>;

    /// Where this CPU, and no other, counts its spins for a lock that were in vain since the last
    /// one that was not: in its slot. It spins for a shorter time after some. `None`, the default,
    /// if it does not learn: in a world of its own time, what a wait costs is then the same,
    /// whatever was before.
    fn in_vain() -> Option<&'static Self::Word> {
        None
    }

    /// The table of halted CPUs (P8). It is not empty, ideally has a power of two of buckets, and
    /// has a few entries for each CPU in total.
    fn waiters() -> &'static [Bucket<Self::Word>];

    /// Halts this CPU while `word` holds `expected`, until it is kicked or `now_ns()` reaches
    /// `deadline_ns` (P1 to P3).
    fn wait(word: &Self::Word, expected: u32, deadline_ns: Option<u64>);

    /// [`wait`](Self::wait) as one of those classes of waiters, which are bits. The default knows
    /// no classes.
    fn wait_as(word: &Self::Word, expected: u32, deadline_ns: Option<u64>, _classes: u32) {
        Self::wait(word, expected, deadline_ns);
    }

    /// Kicks CPU number `cpu`, which may be waiting on `word`, a word of its own slot (P3, P4).
    fn kick(word: *const Self::Word, cpu: Cpu);

    /// Kicks one CPU of these classes that waits on `word`, if any does (P3, P4), and returns
    /// whether it has ended such a wait; false where that is unknown. A platform without classes
    /// kicks all CPUs. Only the address of `word` is used: its memory may be gone.
    ///
    /// Never called unless [`KICKS_BY_ADDRESS`](Self::KICKS_BY_ADDRESS) holds.
    fn kick_any_of(_word: *const Self::Word, _classes: u32) -> bool {
        false
    }

    /// Kicks all CPUs of these classes that wait on `word`; otherwise as
    /// [`kick_any_of`](Self::kick_any_of).
    fn kick_every_of(_word: *const Self::Word, _classes: u32) -> bool {
        false
    }

    /// [`kick_any_of`](Self::kick_any_of) all classes.
    fn kick_any(word: *const Self::Word) -> bool {
        Self::kick_any_of(word, u32::MAX)
    }

    /// [`kick_every_of`](Self::kick_every_of) all classes.
    fn kick_every(word: *const Self::Word) -> bool {
        Self::kick_every_of(word, u32::MAX)
    }

    /// A number that changes when a process forks, in the child (P13): the CPUs that waited in the
    /// parent do not exist there. Below 2^31.
    #[inline]
    fn generation() -> u32 {
        0
    }

    /// A clock in nanoseconds (P9).
    fn now_ns() -> u64;

    /// The time on this clock at which `timeout` has passed from now.
    fn after(timeout: Duration) -> u64 {
        later(Self::now_ns(), timeout)
    }
}

/// The time, in nanoseconds, at which `timeout` has passed from `now_ns`; `u64::MAX` if that is
/// never.
pub(crate) fn later(now_ns: u64, timeout: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}
