// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-write locks and condition variables as subjects, and what they would be with mistakes.

use std::marker::PhantomData;

use lock_api::{RawRwLockFair as _, RawRwLockUpgradeFair as _};
use overlock::platform::Platform;
use overlock::{Hybrid, Queued, RawLock, RawTimedLock};
use overlock::{RawCondvar, RawRwLock};

use crate::Oracle;
use crate::torture::conditions::Hold;
use crate::torture::kind::{Kind, Layout, LockVerbs, Promise, Role, Survives};
use crate::torture::machine::TorturedMachine;
use crate::torture::machine::calls::{cancellable, may_cancel, with};
use crate::torture::platform::{
    ByAddress, ByNumber, Classless, Inject, Kickless, SpinOnly, SwitchedOff, Waiting,
};
use crate::torture::subject::{HYBRID, Probe, QUEUED, Subject, UNFAIR, bare, place};

const READ_WRITE: Promise =
    Promise { layout: Layout::ReadWrite, survives: Survives::Nobody, ..UNFAIR };
/// A CPU that is away may have the list of waiters with it.
const MONITOR: Promise = Promise { layout: Layout::Monitor, survives: Survives::Nobody, ..UNFAIR };

pub(super) static SUBJECTS: &[Subject] = &[
    read_write::<ByAddress, Right>("rwlock"),
    read_write::<ByNumber, Right>("rwlock-by-number"),
    read_write::<SwitchedOff, Right>("off-rwlock"),
    read_write::<SpinOnly, Right>("native-rwlock"),
    monitor::<ByAddress, Right>("condvar"),
    monitor::<ByNumber, Right>("condvar-by-number"),
    monitor::<SwitchedOff, Right>("off-condvar"),
    monitor::<SpinOnly, Right>("native-condvar"),
    mixed::<ByNumber>("mixed-condvar", &KINDS),
];

pub(super) static BROKEN: &[Subject] = &[
    Subject {
        known_bad: &[Oracle::Exclusion],
        ..read_write::<ByAddress, Careless>("broken-reads")
    },
    Subject {
        known_bad: &[Oracle::Bypass],
        ..read_write::<ByAddress, Preferring>("broken-preference")
    },
    Subject {
        known_bad: &[Oracle::LostWakeup],
        ..read_write::<Kickless, Right>("kickless-rwlock")
    },
    Subject {
        known_bad: &[Oracle::LostWakeup],
        ..read_write::<Classless, Right>("classless-rwlock")
    },
    // What another CPU has taken stays taken, or is found so when the run ends.
    Subject {
        known_bad: &[Oracle::LostWakeup, Oracle::Progress, Oracle::Residue],
        ..read_write::<ByAddress, Personal>("broken-given")
    },
    Subject { known_bad: &[Oracle::LostWakeup], ..monitor::<ByAddress, Late>("broken-wait") },
    Subject { known_bad: &[Oracle::LostWakeup], ..monitor::<ByAddress, Greedy>("broken-timeout") },
    Subject { known_bad: &[Oracle::LostWakeup], ..monitor::<ByAddress, Keeping>("broken-cancel") },
];

/// How the family is used; the default methods are correct.
trait Mistake: Send + Sync + 'static {
    /// What a reader takes the lock for; `None` means that it does not.
    fn reads(hold: Hold) -> Option<Hold> {
        Some(hold)
    }
    /// Whether a CPU releases what another has taken.
    const RELEASES_GIVEN: bool = true;
    /// Whether a wait releases its lock only when it has joined the list.
    const JOINS_FIRST: bool = true;
    /// Whether a wait that was notified says so after its deadline.
    const TELLS: bool = true;
    /// Whether a wait that is cancelled passes its notification on.
    const PASSES_ON: bool = true;
}

struct Right;
impl Mistake for Right {}

/// Readers do not take the lock.
struct Careless;
impl Mistake for Careless {
    fn reads(_: Hold) -> Option<Hold> {
        None
    }
}

/// Only the CPU that has taken the lock releases it.
struct Personal;
impl Mistake for Personal {
    const RELEASES_GIVEN: bool = false;
}

/// Readers pass waiting writers, as those of libc's rwlock do by default.
struct Preferring;
impl Mistake for Preferring {
    fn reads(_: Hold) -> Option<Hold> {
        Some(Hold::Again)
    }
}

/// A wait releases the lock first, and misses a notification before it has joined the list.
struct Late;
impl Mistake for Late {
    const JOINS_FIRST: bool = false;
}

/// A waiter that is notified and comes back after its deadline keeps the notification.
struct Greedy;
impl Mistake for Greedy {
    const TELLS: bool = false;
}

/// A waiter that is cancelled stays until it is notified, and keeps the notification.
struct Keeping;
impl Mistake for Keeping {
    const PASSES_ON: bool = false;
}

const fn read_write<W: Waiting, M: Mistake>(name: &'static str) -> Subject {
    bare::<W>(name, read_write_kind::<W, M>())
}

const fn read_write_kind<W: Waiting, M: Mistake>() -> Kind {
    let place = |line| place(line, Sharing::<W, M>(RawRwLock::new(), PhantomData)) as _;
    Kind { timed: true, role: Role::ReadWrite, promise: READ_WRITE, place }
}

const fn monitor<W: Waiting, M: Mistake>(name: &'static str) -> Subject {
    bare::<W>(name, monitor_kind::<W, M>())
}

const fn monitor_kind<W: Waiting, M: Mistake>() -> Kind {
    let place = |line| {
        let (lock, condvar) = (Told(Hybrid::new()), RawCondvar::new());
        place(line, Monitor::<W, M> { lock, condvar, mistake: PhantomData }) as _
    };
    Kind { timed: true, role: Role::Monitor, promise: MONITOR, place }
}

/// Monitors beside locks. Waiters of all share the nodes of their CPUs.
const fn kinds<W: Waiting>() -> [Kind; 4] {
    [
        monitor_kind::<W, Right>(),
        Kind::timed::<Hybrid<Inject<W>, Probe>>(HYBRID),
        read_write_kind::<W, Right>(),
        Kind::timed::<Queued<Inject<W>, Probe>>(QUEUED),
    ]
}

static KINDS: [Kind; 4] = kinds::<ByNumber>();

const fn mixed<W: Waiting>(name: &'static str, mix: &'static [Kind]) -> Subject {
    Subject { mix, ..monitor::<W, Right>(name) }
}

#[repr(transparent)]
struct Sharing<W: Waiting, M>(RawRwLock<Inject<W>, Probe>, PhantomData<M>);

impl<W: Waiting, M: Mistake> Sharing<W, M> {
    /// What the lock is really taken for.
    fn really(hold: Hold) -> Option<Hold> {
        if hold == Hold::Read { M::reads(hold) } else { Some(hold) }
    }
}

// A mistake under test touches nothing but the lock's own cells.
impl<W: Waiting, M: Mistake> LockVerbs for Sharing<W, M> {
    fn lock(&self, hold: Hold) {
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
        if !M::RELEASES_GIVEN && with(|m| m.releases_given) {
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
        if !M::RELEASES_GIVEN {
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
        with(TorturedMachine::wait_releases);
        // SAFETY: the caller's.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[repr(C)]
struct Monitor<W: Waiting, M> {
    condvar: RawCondvar<Inject<W>, Probe>,
    lock: Told<Hybrid<Inject<W>>>,
    mistake: PhantomData<M>,
}

impl<W: Waiting, M: Mistake> LockVerbs for Monitor<W, M> {
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
            if !M::JOINS_FIRST {
                unlock();
                return self.condvar.wait_between(deadline_ns, || {}, || self.lock.lock());
            }
            let release = || {
                unlock();
                if M::PASSES_ON {
                    may_cancel();
                }
            };
            self.condvar.wait_between(deadline_ns, release, || self.lock.lock())
        });
        let Some(notified) = waited else {
            self.lock.lock();
            return false;
        };
        if !M::PASSES_ON && with(TorturedMachine::wait_is_cancelled) {
            return false;
        }
        let late = || deadline_ns.is_some_and(|at| Inject::<W>::now_ns() >= at);
        notified && (M::TELLS || !late())
    }

    fn notify(&self, all: bool) {
        if all {
            self.condvar.notify_all();
        } else {
            self.condvar.notify_one();
        }
    }
}
