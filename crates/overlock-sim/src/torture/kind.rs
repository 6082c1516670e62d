//! What a lock is to the machine: what its CPUs do with it, and what it promises.

use crate::torture::conditions::{Hold, Verb};

/// A lock, as the machine's CPUs use it.
pub(crate) trait LockVerbs {
    fn lock(&self, _hold: Hold) {
        unreachable!("no lock")
    }
    fn try_lock(&self, _hold: Hold) -> bool {
        unreachable!("no lock")
    }
    fn try_lock_until(&self, _hold: Hold, _deadline_ns: u64) -> bool {
        unreachable!("no lock that can be timed")
    }
    /// Releases the lock, which the caller holds for this.
    fn unlock(&self, _hold: Hold) {
        unreachable!("no lock")
    }
    /// Releases the lock in favour of the queue head, if the lock can do that.
    fn unlock_fair(&self, hold: Hold) {
        self.unlock(hold);
    }
    /// Waits until no other CPU reads the lock, which the caller holds as upgradable, and then
    /// holds it to write. Returns false if the deadline passed first.
    fn upgrade(&self, _deadline_ns: Option<u64>) -> bool {
        unreachable!("no read-write lock")
    }
    fn try_upgrade(&self) -> bool {
        unreachable!("no read-write lock")
    }
    /// Keeps the lock, which the caller holds for `from`, for less.
    fn downgrade(&self, _from: Hold, _to: Hold) {
        unreachable!("no read-write lock")
    }
    /// For a monitor, whose lock the caller holds: waits for a notification. Returns false if the
    /// deadline passed first.
    fn wait(&self, _deadline_ns: Option<u64>) -> bool {
        unreachable!("no monitor")
    }
    /// For a monitor: notifies one waiter, or all.
    fn notify(&self, _all: bool) {
        unreachable!("no monitor")
    }
    /// For a shared value: performs `verb`, and returns the number of a refresh, or `None` if the
    /// value is torn. `compute` begins a refresh and returns its number.
    fn ask(&self, _verb: Verb, _compute: &dyn Fn() -> u32) -> Option<u32> {
        unreachable!("no shared value")
    }
}

/// A kind of lock: how to make one, and what it promises.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) timed: bool,
    pub(crate) role: Role,
    pub(crate) promise: Promise,
    pub(crate) place: fn(*mut u8) -> &'static dyn LockVerbs,
}

/// What CPUs do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Lock,
    /// It is a value that they share.
    Value,
    /// They lock it to read or to write.
    ReadWrite,
    /// It is a lock with a condition variable: they give tokens, and wait for tokens to take.
    Monitor,
}

/// The meaning of a lock's words, as far as oracles read them. It comes from the locks'
/// documentation and not from their code, so that a mistake there is not repeated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Opaque,
    /// `test_and_set.rs`: bit 0 is `LOCKED`.
    Bit,
    /// `word/queue.rs`: a [`tail`] in the upper half, `NO_STEALING` in bit 14, `HALTED` in bit 13,
    /// steals in bits 1 to 12, `LOCKED` in bit 0.
    Queue,
    /// `ticket.rs`: the next ticket in a second cell.
    Ticket,
    /// `word/read_write.rs`: `BARRED` in bit 31, `ASLEEP` in bit 30, `FIRST` in bit 29; below,
    /// the number of readers from bit 1 on and `UPGRADABLE` in bit 0, or one of the three highest
    /// values.
    ReadWrite,
    /// A condition variable and its lock. The counts of waiters are zero while no CPU uses it.
    Monitor,
}

/// Which absent CPUs a lock survives: while one of the others has a processor, a free lock is
/// taken.
///
/// A CPU can also be stopped for ever. What that costs those that come again and again is bounded
/// in all, for the last two. Until another kicks it, a CPU that has halted may then sleep on: with
/// [`Everybody`](Self::Everybody), if the stopped one was kicked and has not passed that on; and
/// in a queue, until it looks by itself, before it has waited twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survives {
    /// None: every CPU has to be there.
    Nobody,
    /// All but the queue head.
    AllButFirst,
    /// All but the queue head once it has disabled stealing; before, a newcomer takes the lock.
    AllButDeclared,
    /// As before, and a lock stays reserved for a queue head that does not come only as long as
    /// there is nobody behind it.
    AllWithOthersBehind,
    /// All: any running CPU takes the lock.
    Everybody,
}

impl Survives {
    /// Whether a CPU that is stopped for ever delays others a bounded time in all.
    pub(crate) fn stops(self) -> bool {
        matches!(self, Self::Everybody | Self::AllWithOthersBehind)
    }
}

/// What a lock promises beyond mutual exclusion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) layout: Layout,
    /// Whether waiters in the queue are served in the order in which they joined it.
    pub(crate) in_order: bool,
    /// How often the queue head may be passed.
    pub(crate) max_bypass: Option<u32>,
    /// Whether no CPU passes a queue head that has disabled stealing.
    pub(crate) disables_stealing: bool,
    /// How often a queue head may be passed before it halts, if it may be passed only while it is
    /// halted for the first time.
    pub(crate) passes_awake: Option<u32>,
    pub(crate) survives: Survives,
}
