//! Read-write locks and condition variables as subjects, and what they would be with mistakes.

use lock_api::{RawRwLockFair as _, RawRwLockUpgradeFair as _};
use overlock::platform::Platform;
use overlock::{Hybrid, Queued, RawLock, RawTimedLock};
use overlock::{RawCondvar, RawRwLock};

use crate::Property;
use crate::torture::conditions::Hold;
use crate::torture::kind::{Kind, Layout, LockVerbs, Promise, Role, Survives};
use crate::torture::machine::TorturedMachine;
use crate::torture::machine::calls::{Word, cancellable, may_cancel, with};
use crate::torture::platform::{
    ByAddress, ByNumber, Classless, Ending, Inject, Kickless, SpinOnly, SwitchedOff, Waiting,
};
use crate::torture::subject::{HYBRID, Probe, QUEUED, Subject, UNFAIR, bad, bare, place};

const READ_WRITE: Promise =
    Promise { layout: Layout::ReadWrite, survives: Survives::Nobody, ..UNFAIR };
/// A CPU that is away may have the list of waiters with it.
const MONITOR: Promise = Promise { layout: Layout::Monitor, survives: Survives::Nobody, ..UNFAIR };

pub(super) static SUBJECTS: &[Subject] = &[
    read_write::<ByAddress, RIGHT>("rwlock"),
    read_write::<ByNumber, RIGHT>("rwlock-by-number"),
    bare::<Ending>("ending-rwlock", ending::<RIGHT>()),
    read_write::<SwitchedOff, RIGHT>("off-rwlock"),
    read_write::<SpinOnly, RIGHT>("native-rwlock"),
    monitor::<ByAddress, RIGHT>("condvar"),
    monitor::<ByNumber, RIGHT>("condvar-by-number"),
    monitor::<SwitchedOff, RIGHT>("off-condvar"),
    monitor::<SpinOnly, RIGHT>("native-condvar"),
    mixed::<ByNumber>("mixed-condvar", &KINDS),
];

pub(super) static BROKEN: &[Subject] = &[
    bad(&[Property::Exclusion], read_write::<ByAddress, CARELESS>("broken-reads")),
    bad(&[Property::Bypass], read_write::<ByAddress, PREFERRING>("broken-preference")),
    bad(&[Property::Progress], bare::<Ending>("broken-deference", ending::<DEFERRING>())),
    bad(&[Property::LostWakeup], read_write::<Kickless, RIGHT>("kickless-rwlock")),
    bad(&[Property::LostWakeup], read_write::<Classless, RIGHT>("classless-rwlock")),
    // What another CPU has taken stays taken, or is found so when the run ends.
    bad(
        &[Property::LostWakeup, Property::Progress, Property::Residue],
        read_write::<ByAddress, PERSONAL>("broken-given"),
    ),
    bad(&[Property::LostWakeup], monitor::<ByAddress, LATE>("broken-wait")),
    bad(&[Property::LostWakeup], monitor::<ByAddress, GREEDY>("broken-timeout")),
    bad(&[Property::LostWakeup], monitor::<ByAddress, KEEPING>("broken-cancel")),
];

/// What a condition variable has counted before the run: all its counts overflow soon.
const NEARLY_ROUND: u32 = u32::MAX - 5;

const RIGHT: u8 = 0;
/// Readers do not take the lock.
const CARELESS: u8 = 1;
/// Readers pass waiting writers, as those of libc's rwlock do by default.
const PREFERRING: u8 = 2;
/// Only the CPU that has taken the lock releases it.
const PERSONAL: u8 = 3;
/// A wait releases the lock first, and misses a notification before it has joined the list.
const LATE: u8 = 4;
/// A waiter that is notified and comes back after its deadline keeps the notification.
const GREEDY: u8 = 5;
/// A waiter that is cancelled stays until it is notified, and keeps the notification.
const KEEPING: u8 = 6;
/// Each time anew, others get some time to take the lock first, whether they come or not.
const DEFERRING: u8 = 7;

const fn read_write<W: Waiting, const FAULT: u8>(name: &'static str) -> Subject {
    bare::<W>(name, read_write_kind::<W, FAULT>())
}

const fn read_write_kind<W: Waiting, const FAULT: u8>() -> Kind {
    let place = |line| place(line, Sharing::<W, FAULT>(RawRwLock::new())) as _;
    Kind { timed: true, role: Role::ReadWrite, promise: READ_WRITE, place }
}

/// Where a turn that no CPU takes ends.
const fn ending<const FAULT: u8>() -> Kind {
    let promise = Promise { survives: Survives::AllWithOthersBehind, ..READ_WRITE };
    Kind { promise, ..read_write_kind::<Ending, FAULT>() }
}

const fn monitor<W: Waiting, const FAULT: u8>(name: &'static str) -> Subject {
    bare::<W>(name, monitor_kind::<W, FAULT>())
}

const fn monitor_kind<W: Waiting, const FAULT: u8>() -> Kind {
    let place = |line| {
        let cells = [0, NEARLY_ROUND, NEARLY_ROUND, NEARLY_ROUND, 0, 0, 0].map(Word::holding);
        let [list, even, odd, open, waiting, closed, permits] = cells;
        // SAFETY: where groups and notifications are counted, any number can be the first.
        let condvar =
            unsafe { RawCondvar::with(list, [even, odd], open, waiting, closed, permits) };
        let lock = Told(Hybrid::new());
        place(line, Monitor::<W, FAULT> { lock, condvar }) as _
    };
    Kind { timed: true, role: Role::Monitor, promise: MONITOR, place }
}

/// Monitors beside locks. Waiters of all share the nodes of their CPUs.
const fn kinds<W: Waiting>() -> [Kind; 4] {
    [
        monitor_kind::<W, RIGHT>(),
        Kind::timed::<Hybrid<Inject<W>, Probe>>(HYBRID),
        read_write_kind::<W, RIGHT>(),
        Kind::timed::<Queued<Inject<W>, Probe>>(QUEUED),
    ]
}

static KINDS: [Kind; 4] = kinds::<ByNumber>();

const fn mixed<W: Waiting>(name: &'static str, mix: &'static [Kind]) -> Subject {
    Subject { mix, ..monitor::<W, RIGHT>(name) }
}

#[repr(transparent)]
struct Sharing<W: Waiting, const FAULT: u8>(RawRwLock<Inject<W>, Probe>);

impl<W: Waiting, const FAULT: u8> Sharing<W, FAULT> {
    /// What the lock is really taken for.
    fn really(hold: Hold) -> Option<Hold> {
        match (FAULT, hold) {
            (CARELESS, Hold::Read) => None,
            (PREFERRING, Hold::Read) => Some(Hold::Again),
            _ => Some(hold),
        }
    }
}

// A mistake under test touches nothing but the lock's own cells.
impl<W: Waiting, const FAULT: u8> LockVerbs for Sharing<W, FAULT> {
    fn lock(&self, hold: Hold) {
        if FAULT == DEFERRING && with(|m| m.is_asked_for_by_others()) {
            Inject::<W>::nap(400_000);
        }
        match Self::really(hold) {
            Some(Hold::Write) => self.0.lock(),
            Some(Hold::Read) => self.0.lock_shared(),
            Some(Hold::Again) => self.0.lock_shared_recursive(),
            Some(Hold::Upgradable) => self.0.lock_upgradable(),
            None => {}
        }
    }

    fn try_lock(&self, hold: Hold) -> bool {
        match Self::really(hold) {
            Some(Hold::Write) => self.0.try_lock(),
            Some(Hold::Read) => self.0.try_lock_shared(),
            Some(Hold::Again) => self.0.try_lock_shared_recursive(),
            Some(Hold::Upgradable) => self.0.try_lock_upgradable(),
            None => true,
        }
    }

    fn try_lock_until(&self, hold: Hold, deadline_ns: u64) -> bool {
        match Self::really(hold) {
            Some(Hold::Write) => self.0.try_lock_until(deadline_ns),
            Some(Hold::Read) => self.0.try_lock_shared_until(deadline_ns),
            Some(Hold::Again) => self.0.try_lock_shared_recursive_until(deadline_ns),
            Some(Hold::Upgradable) => self.0.try_lock_upgradable_until(deadline_ns),
            None => true,
        }
    }

    fn unlock(&self, hold: Hold) {
        if FAULT == PERSONAL && with(|m| m.releases_given) {
            return;
        }
        // SAFETY: the caller holds the lock for that.
        unsafe {
            match Self::really(hold) {
                Some(Hold::Write) => self.0.unlock(),
                Some(Hold::Read | Hold::Again) => self.0.unlock_shared(),
                Some(Hold::Upgradable) => self.0.unlock_upgradable(),
                None => {}
            }
        }
    }

    fn unlock_fair(&self, hold: Hold) {
        if FAULT == PERSONAL {
            return self.unlock(hold);
        }
        // SAFETY: the caller holds the lock for that.
        unsafe {
            match Self::really(hold) {
                Some(Hold::Write) => self.0.unlock_exclusive_fair(),
                Some(Hold::Read | Hold::Again) => self.0.unlock_shared_fair(),
                Some(Hold::Upgradable) => self.0.unlock_upgradable_fair(),
                None => {}
            }
        }
    }

    fn upgrade(&self, deadline_ns: Option<u64>) -> bool {
        // SAFETY: the caller holds the lock as upgradable.
        unsafe {
            match deadline_ns {
                Some(at) => self.0.try_upgrade_until(at),
                None => {
                    self.0.upgrade();
                    true
                }
            }
        }
    }

    fn try_upgrade(&self) -> bool {
        // SAFETY: the caller holds the lock as upgradable.
        unsafe { self.0.try_upgrade() }
    }

    fn downgrade(&self, from: Hold, to: Hold) {
        // SAFETY: the caller holds the lock for that.
        unsafe {
            match (from, to) {
                (Hold::Upgradable, _) => self.0.downgrade_upgradable(),
                (_, Hold::Upgradable) => self.0.downgrade_to_upgradable(),
                _ => self.0.downgrade(),
            }
        }
    }
}

/// A lock that tells the machine when a wait releases it and takes it again.
#[repr(transparent)]
struct Told<L>(L);

// SAFETY: that of the lock inside.
unsafe impl<L: RawLock> RawLock for Told<L> {
    fn lock(&self) {
        with(TorturedMachine::wait_wants_lock);
        self.0.lock();
        with(TorturedMachine::wait_has_lock);
    }

    fn try_lock(&self) -> bool {
        with(TorturedMachine::wait_wants_lock);
        let taken = self.0.try_lock();
        if taken {
            with(TorturedMachine::wait_has_lock);
        }
        taken
    }

    unsafe fn unlock(&self) {
        with(|m| m.stops_holding(m.waits_for(), Hold::Write));
        // SAFETY: the caller's.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[repr(C)]
struct Monitor<W: Waiting, const FAULT: u8> {
    condvar: RawCondvar<Inject<W>, Probe>,
    lock: Told<Hybrid<Inject<W>>>,
}

impl<W: Waiting, const FAULT: u8> LockVerbs for Monitor<W, FAULT> {
    fn lock(&self, _: Hold) {
        self.lock.0.lock();
    }

    fn try_lock(&self, _: Hold) -> bool {
        self.lock.0.try_lock()
    }

    fn try_lock_until(&self, _: Hold, deadline_ns: u64) -> bool {
        self.lock.0.try_lock_until(deadline_ns)
    }

    fn unlock(&self, _: Hold) {
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.0.unlock() };
    }

    fn wait(&self, deadline_ns: Option<u64>) -> bool {
        let waited = cancellable(|| {
            // SAFETY: the caller holds the lock.
            let unlock = || unsafe { self.lock.unlock() };
            if FAULT == LATE {
                unlock();
                return self.condvar.wait_between(deadline_ns, || {}, || self.lock.lock());
            }
            let release = || {
                unlock();
                if FAULT != KEEPING {
                    may_cancel();
                }
            };
            self.condvar.wait_between(deadline_ns, release, || self.lock.lock())
        });
        let Some(notified) = waited else {
            self.lock.lock();
            return false;
        };
        if FAULT == KEEPING && with(TorturedMachine::wait_is_cancelled) {
            return false;
        }
        let late = || deadline_ns.is_some_and(|at| Inject::<W>::now_ns() >= at);
        notified && (FAULT != GREEDY || !late())
    }

    fn notify(&self, all: bool) {
        if all {
            self.condvar.notify_all();
        } else {
            self.condvar.notify_one();
        }
    }
}
