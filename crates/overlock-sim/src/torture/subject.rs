//! What is tortured: a lock, or locks of several kinds, with what each of them promises.

use overlock::counters::{Class, Event};
use overlock::{ConstLock, Hybrid, Queued, RawFairLock, RawLock, RawTimedLock, TestAndSet};

use crate::torture::conditions::Hold;
use crate::torture::kind::{Kind, Layout, LockVerbs, Promise, Role, Survives};
use crate::torture::machine::calls;
use crate::torture::platform::{ByNumber, Inject, Waiting};
use overlock_results::Rng;

/// A lock that may have a release in favour of the queue head.
pub(crate) trait Fair: RawTimedLock {
    fn unlock_fair(&self) {
        // SAFETY: as for `LockVerbs::unlock`.
        unsafe { self.unlock() };
    }
}

impl<W: Waiting> Fair for TestAndSet<Inject<W>, Probe> {}

impl<W: Waiting> Fair for Queued<Inject<W>, Probe> {
    fn unlock_fair(&self) {
        // SAFETY: as for `LockVerbs::unlock`.
        unsafe { RawFairLock::unlock_fair(self) };
    }
}

impl<W: Waiting> Fair for Hybrid<Inject<W>, Probe> {
    fn unlock_fair(&self) {
        // SAFETY: as for `LockVerbs::unlock`.
        unsafe { RawFairLock::unlock_fair(self) };
    }
}

#[repr(transparent)]
struct Plain<L>(L);
#[repr(transparent)]
struct Timed<L>(L);

impl<L: RawLock> LockVerbs for Plain<L> {
    fn lock(&self, _: Hold) {
        self.0.lock();
    }
    fn try_lock(&self, _: Hold) -> bool {
        self.0.try_lock()
    }
    fn unlock(&self, _: Hold) {
        // SAFETY: the caller holds the lock. (A broken lock under test touches nothing but its own
        // cells.)
        unsafe { self.0.unlock() };
    }
}

impl<L: Fair> LockVerbs for Timed<L> {
    fn lock(&self, _: Hold) {
        self.0.lock();
    }
    fn try_lock(&self, _: Hold) -> bool {
        self.0.try_lock()
    }
    fn try_lock_until(&self, _: Hold, deadline_ns: u64) -> bool {
        self.0.try_lock_until(deadline_ns)
    }
    fn unlock(&self, _: Hold) {
        // SAFETY: the caller holds the lock. (A broken lock under test touches nothing but its own
        // cells.)
        unsafe { self.0.unlock() };
    }
    fn unlock_fair(&self, _: Hold) {
        self.0.unlock_fair();
    }
}

/// A lock under test, or locks of several kinds.
pub struct Subject {
    /// Its name on the command line.
    pub name: &'static str,
    /// If the subject is meant to fail: the oracles that may catch it. Empty if it is sound.
    pub known_bad: &'static [crate::Property],
    pub(crate) waits: bool,
    /// What it writes in place of a queue node's state, if it is wrong on purpose.
    pub(crate) numbers: Option<fn(u32) -> u32>,
    pub(crate) kind: Kind,
    /// All kinds, if its locks are of several kinds.
    pub(crate) mix: &'static [Kind],
}

impl Subject {
    /// Whether its locks are of several kinds.
    pub(crate) fn is_mixed(&self) -> bool {
        !self.mix.is_empty()
    }

    pub(crate) fn kind(&'static self, index: usize) -> &'static Kind {
        if self.is_mixed() { &self.mix[index % self.mix.len()] } else { &self.kind }
    }

    /// The kinds of `locks` locks. No two neighbours, in which critical sections nest, are of one
    /// kind.
    pub(crate) fn draw(&'static self, rng: &mut Rng, locks: usize) -> Vec<&'static Kind> {
        let mut index = 0;
        let next = || {
            if self.is_mixed() {
                index += 1 + rng.index(self.mix.len() - 1);
            }
            self.kind(index)
        };
        std::iter::repeat_with(next).take(locks).collect()
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Counts a lock's events in the machine.
pub(crate) struct Probe;

impl Class for Probe {
    fn count(event: Event) {
        calls::count(event);
    }
}

/// A lock that promises only mutual exclusion.
pub(crate) const UNFAIR: Promise = Promise {
    layout: Layout::Bit,
    in_order: false,
    max_bypass: None,
    disables_stealing: false,
    passes_awake: None,
    survives: Survives::Everybody,
};
pub(crate) const TICKET: Promise =
    Promise { layout: Layout::Ticket, in_order: true, survives: Survives::AllButFirst, ..UNFAIR };
pub(crate) const QUEUED: Promise = Promise {
    layout: Layout::Queue,
    max_bypass: Some(Queued::<Inject<ByNumber>>::MAX_BYPASS),
    disables_stealing: true,
    passes_awake: Some(0),
    ..TICKET
};
pub(crate) const HYBRID: Promise =
    Promise { survives: Survives::AllButDeclared, passes_awake: None, ..QUEUED };
/// Where reservations end, a waiter passes a queue head that does not come.
pub(crate) const ENDING: Promise =
    Promise { layout: Layout::Queue, survives: Survives::AllWithOthersBehind, ..UNFAIR };
/// A cheap release may miss a queue that has just formed; one CPU can then pass its head.
pub(crate) const CHEAP_QUEUED: Promise = Promise { passes_awake: Some(1), ..QUEUED };
pub(crate) const fn plain<W: Waiting, L: ConstLock + 'static>(
    name: &'static str,
    promise: Promise,
) -> Subject {
    bare::<W>(name, Kind::plain::<L>(promise))
}

pub(crate) const fn timed<W: Waiting, L: ConstLock + Fair + 'static>(
    name: &'static str,
    promise: Promise,
) -> Subject {
    bare::<W>(name, Kind::timed::<L>(promise))
}

pub(crate) const fn bare<W: Waiting>(name: &'static str, kind: Kind) -> Subject {
    Subject { name, known_bad: &[], waits: W::HOW.on, numbers: None, kind, mix: &[] }
}

/// A subject that one of these oracles has to catch.
pub(crate) const fn bad(known_bad: &'static [crate::Property], subject: Subject) -> Subject {
    Subject { known_bad, ..subject }
}

impl Kind {
    pub(crate) const fn plain<L: ConstLock + 'static>(promise: Promise) -> Self {
        Self { timed: false, role: Role::Lock, promise, place: |line| place(line, Plain(L::NEW)) }
    }

    pub(crate) const fn timed<L: ConstLock + Fair + 'static>(promise: Promise) -> Self {
        Self { timed: true, place: |line| place(line, Timed(L::NEW)), ..Self::plain::<L>(promise) }
    }
}

pub(crate) fn place<V: LockVerbs + 'static>(line: *mut u8, verbs: V) -> &'static V {
    const { assert!(size_of::<V>() <= 64 && align_of::<V>() <= 64) }
    let line = line.cast::<V>();
    // SAFETY: this is a line of the arena: 64 bytes and aligned, and unused before the run begins.
    unsafe { line.write(verbs) };
    // SAFETY: the value is initialised, and shared from here on. It consists of cells, so it stays
    // valid whatever `Arena::clear_line` does to them.
    unsafe { &*line }
}
