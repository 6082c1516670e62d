//! Locks that are wrong on purpose, each of which a program of calls tells from `parking_lot`.

use std::sync::Mutex;
use std::thread;

use crate::Theirs;
use crate::driver::{Subject, Threads};
use crate::family::Locks;
use crate::machine::Machine;
use crate::model::{By, Call, End, Lock, Mode, Outcome, Thread, Want};
use crate::program::{Cast, RESERVED, THREADS, run};
use crate::{GIVES, MUTEX, ONCE, RW, STEPS, be_quiet_about_results};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// An attempt to read fails while another thread could upgrade.
    ReadersRefused,
    /// Readers wait while another thread could upgrade.
    ReadersBlocked,
    /// A lock that was read looks locked from then on.
    LooksLocked,
    /// What another thread has taken is not released.
    ReleasedByTaker,
    /// A note of a reader stays at the address.
    KnownByAddress,
    FewReaders,
    /// A writer that gives up leaves readers shut out.
    GivenUpWriterStays,
    UpgradesBesideReaders,
    WakesOne,
    MiscountsWaiters,
    TimesOutSilently,
    ForgetsPanics,
    /// A holder that is to let others go first keeps the lock.
    HandsNothingOver,
    /// The same, but no fault: the lock was reserved in vain meanwhile.
    HandsOverInVain,
}

/// The real locks, but for one fault.
struct Twin {
    locks: Locks<Theirs>,
    fault: Fault,
    /// Which threads have taken what, or what the fault remembers.
    notes: Mutex<Vec<(Thread, Lock, Mode)>>,
}

impl Twin {
    fn has_note(&self, is_it: impl Fn(&(Thread, Lock, Mode)) -> bool) -> bool {
        self.notes.lock().unwrap().iter().any(is_it)
    }

    /// Notes what a thread takes and releases.
    fn note(&self, thread: Thread, call: Call, outcome: Outcome) {
        let mut notes = self.notes.lock().unwrap();
        match call {
            Call::Acquire(lock, want, _) if outcome == Outcome::Done => {
                notes.push((thread, lock, want.mode()));
            }
            Call::Acquire(lock, Want::Write, By::Soon) => notes.push((thread, lock, Mode::Write)),
            Call::Release(lock, mode, _) if self.fault != Fault::LooksLocked => {
                notes.retain(|&note| note != (thread, lock, mode));
            }
            _ => {}
        }
    }
}

impl Subject for Twin {
    fn call(&self, thread: Thread, call: Call, stay: &mut dyn FnMut() -> End) -> Outcome {
        use Fault::*;
        let mut make = |call| self.locks.call(thread, call, stay);
        let noted = |lock, mode| self.has_note(|&(_, of, how)| (of, how) == (lock, mode));
        let outcome = match (self.fault, call) {
            (HandsNothingOver, Call::Bump(_, Mode::Write)) => Outcome::Done,
            (HandsOverInVain, Call::Bump(_, Mode::Write)) => {
                thread::sleep(RESERVED);
                Outcome::Done
            }
            (ReadersRefused, Call::Acquire(lock, Want::Read, By::Try))
                if noted(lock, Mode::Upgradable) =>
            {
                Outcome::Refused
            }
            (ReadersBlocked, Call::Acquire(lock, Want::Read, By::Ever))
                if noted(lock, Mode::Upgradable) =>
            {
                loop {
                    thread::park();
                }
            }
            (LooksLocked, Call::IsLocked(lock)) if noted(lock, Mode::Read) => Outcome::Done,
            (ReleasedByTaker, Call::Release(lock, mode, _))
                if !self.has_note(|&note| note == (thread, lock, mode)) =>
            {
                Outcome::Done
            }
            (KnownByAddress, Call::Acquire(lock, Want::Write, By::Try))
                if noted(lock, Mode::Read) =>
            {
                Outcome::Refused
            }
            (FewReaders, Call::ManyReads(lock, count)) => {
                make(Call::ManyReads(lock, count.min(0xffff)))
            }
            (GivenUpWriterStays, Call::Acquire(lock, Want::Read, By::Try))
                if noted(lock, Mode::Write) =>
            {
                Outcome::Refused
            }
            (UpgradesBesideReaders, Call::Acquire(_, Want::Upgrade, By::Try)) => Outcome::Done,
            (WakesOne, Call::NotifyAll) => {
                Outcome::Count(usize::from(make(Call::NotifyOne) == Outcome::Done))
            }
            (MiscountsWaiters, Call::NotifyAll) => {
                make(call);
                Outcome::Count(0)
            }
            (TimesOutSilently, Call::Wait(..)) => {
                make(call);
                Outcome::Done
            }
            (ForgetsPanics, Call::OnceState) if make(call) == Outcome::Count(1) => {
                Outcome::Count(0)
            }
            _ => make(call),
        };
        self.note(thread, call, outcome);
        outcome
    }
}

fn new(cast: &Cast, fault: Fault) -> Box<dyn Machine> {
    let twin = Twin { locks: Locks::new(cast.kinds), fault, notes: Mutex::default() };
    Box::new(Threads::new(twin, THREADS + 1))
}

fn is_found(cast: &Cast, fault: Fault) -> bool {
    be_quiet_about_results();
    (0..200).any(|seed| run(cast, &mut *new(cast, fault), Err((seed, STEPS))).is_err())
}

#[test]
fn broken_locks_are_found() {
    use Fault::*;
    let mut found = vec![
        (RW, ReadersRefused),
        (RW, ReadersBlocked),
        (RW, LooksLocked),
        (RW, FewReaders),
        (RW, GivenUpWriterStays),
        (RW, UpgradesBesideReaders),
        (RW, HandsNothingOver),
        (MUTEX, HandsNothingOver),
        (MUTEX, WakesOne),
        (MUTEX, MiscountsWaiters),
        (MUTEX, TimesOutSilently),
        (ONCE, ForgetsPanics),
    ];
    if GIVES {
        found.extend([(RW, ReleasedByTaker), (RW, KnownByAddress)]);
    }
    for (cast, fault) in found {
        assert!(is_found(&cast, fault), "{fault:?} in {}", cast.name);
    }
}

#[test]
fn a_lock_that_is_reserved_in_vain_is_anybodys() {
    let take = Call::Acquire(0, Want::Write, By::Ever);
    let steps = [(0, take), (1, take), (0, Call::Bump(0, Mode::Write))];
    let passes = run(&MUTEX, &mut *new(&MUTEX, Fault::HandsOverInVain), Ok(&steps));
    assert!(passes.is_ok(), "{}", passes.unwrap_err());
}
