//! The locks of one crate as something to call: by the raw traits on which its guards are built.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use lock_api::{
    GetThreadId, RawMutex, RawMutexFair, RawMutexTimed, RawReentrantMutex, RawRwLock,
    RawRwLockDowngrade, RawRwLockFair, RawRwLockRecursiveTimed, RawRwLockTimed, RawRwLockUpgrade,
    RawRwLockUpgradeDowngrade, RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};

use crate::driver::Subject;
use crate::model::{By, Call, End, Kind, Lock, Mode, Outcome, Thread, Want};

/// The deadline of a call that returns before the next call.
const SOON: Duration = Duration::from_millis(2);
/// The deadline of one that may outlast some calls.
const LATER: Duration = Duration::from_millis(20);
const HOUR: Duration = Duration::from_secs(3600);

/// All that [`RawRwLock`]s can do.
pub(crate) trait AnyRwLock:
    RawRwLockFair
    + RawRwLockDowngrade
    + RawRwLockRecursiveTimed
    + RawRwLockUpgradeDowngrade
    + RawRwLockUpgradeFair
    + RawRwLockUpgradeTimed
    + RawRwLockTimed<Duration = Duration, Instant = Instant>
{
}

impl<R> AnyRwLock for R where
    R: RawRwLockFair
        + RawRwLockDowngrade
        + RawRwLockRecursiveTimed
        + RawRwLockUpgradeDowngrade
        + RawRwLockUpgradeFair
        + RawRwLockUpgradeTimed
        + RawRwLockTimed<Duration = Duration, Instant = Instant>
{
}

/// All that raw mutexes can do.
pub(crate) trait AnyMutex:
    RawMutexFair + RawMutexTimed<Duration = Duration, Instant = Instant>
{
}

impl<R: RawMutexFair + RawMutexTimed<Duration = Duration, Instant = Instant>> AnyMutex for R {}

/// The types of a crate with `parking_lot`'s names.
pub(crate) trait Family: 'static {
    type Mutex: AnyMutex;
    type Fair: AnyMutex;
    type Id: GetThreadId;
    type RwLock: AnyRwLock;
    type Condvar: Default;
    type Once: Default;
    fn wait(condvar: &Self::Condvar, guard: &mut Guard<'_, Self>, until: Option<Instant>) -> bool;
    fn notify_one(condvar: &Self::Condvar) -> bool;
    fn notify_all(condvar: &Self::Condvar) -> usize;
    /// Calls the closure with whether another has panicked, which is not looked at unless forced.
    fn call(once: &Self::Once, is_forced: bool, closure: impl FnOnce(bool));
    /// New, poisoned, in progress, done.
    fn state(once: &Self::Once) -> usize;
}

pub(crate) type Guard<'a, F> = lock_api::MutexGuard<'a, <F as Family>::Mutex, ()>;

#[macro_export]
macro_rules! family {
    ($name:ident, $lib:ident) => {
        pub(crate) struct $name;

        impl $crate::family::Family for $name {
            type Mutex = $lib::RawMutex;
            type Fair = $lib::RawFairMutex;
            type Id = $lib::RawThreadId;
            type RwLock = $lib::RawRwLock;
            type Condvar = $lib::Condvar;
            type Once = $lib::Once;

            fn wait(
                condvar: &Self::Condvar,
                guard: &mut $crate::family::Guard<'_, Self>,
                until: Option<std::time::Instant>,
            ) -> bool {
                match until {
                    None => condvar.wait(guard),
                    Some(until) => return !condvar.wait_until(guard, until).timed_out(),
                }
                true
            }

            fn notify_one(condvar: &Self::Condvar) -> bool {
                condvar.notify_one()
            }

            fn notify_all(condvar: &Self::Condvar) -> usize {
                condvar.notify_all()
            }

            fn call(once: &Self::Once, is_forced: bool, closure: impl FnOnce(bool)) {
                match is_forced {
                    true => once.call_once_force(|state| closure(state.poisoned())),
                    false => once.call_once(|| closure(false)),
                }
            }

            fn state(once: &Self::Once) -> usize {
                match once.state() {
                    $lib::OnceState::New => 0,
                    $lib::OnceState::Poisoned => 1,
                    $lib::OnceState::InProgress => 2,
                    $lib::OnceState::Done => 3,
                }
            }
        }
    };
}

enum AnyLock<F: Family> {
    Mutex(lock_api::Mutex<F::Mutex, ()>),
    Fair(F::Fair),
    Reentrant(RawReentrantMutex<F::Mutex, F::Id>),
    Rw(F::RwLock),
}

/// Locks, a condition variable and a once.
pub(crate) struct Locks<F: Family> {
    locks: Vec<UnsafeCell<AnyLock<F>>>,
    condvar: F::Condvar,
    once: F::Once,
}

// SAFETY: the locks are made for many threads. They are moved only when no thread uses them.
unsafe impl<F: Family> Sync for Locks<F> {}
// SAFETY: as above; nothing in them belongs to a thread while no call is under way.
unsafe impl<F: Family> Send for Locks<F> {}

impl<F: Family> Locks<F> {
    pub(crate) fn new(kinds: &[Kind]) -> Self {
        let lock = |kind: &Kind| {
            UnsafeCell::new(match kind {
                Kind::Mutex | Kind::ErrorCheck => {
                    AnyLock::Mutex(lock_api::Mutex::from_raw(F::Mutex::INIT, ()))
                }
                Kind::Fair => AnyLock::Fair(F::Fair::INIT),
                Kind::Reentrant => AnyLock::Reentrant(RawReentrantMutex::INIT),
                _ => AnyLock::Rw(F::RwLock::INIT),
            })
        };
        let locks = kinds.iter().map(lock).collect();
        Self { locks, condvar: F::Condvar::default(), once: F::Once::default() }
    }

    fn lock(&self, lock: Lock) -> &AnyLock<F> {
        // SAFETY: no thread moves the locks during other calls.
        unsafe { &*self.locks[lock].get() }
    }

    fn rw(&self, lock: Lock) -> &F::RwLock {
        match self.lock(lock) {
            AnyLock::Rw(raw) => raw,
            _ => unreachable!("a call of read-write locks"),
        }
    }

    fn wait(&self, lock: Lock, by: By) -> bool {
        let AnyLock::Mutex(mutex) = self.lock(lock) else { unreachable!("a wait with a mutex") };
        // SAFETY: the thread holds the mutex, and its record of that is kept elsewhere.
        let mut guard = ManuallyDrop::new(unsafe { mutex.make_guard_unchecked() });
        F::wait(&self.condvar, &mut guard, until(by))
    }

    fn many_reads(&self, lock: Lock, count: usize) -> usize {
        let raw = self.rw(lock);
        let had = (0..count).take_while(|_| raw.try_lock_shared()).count();
        // SAFETY: so many were taken.
        (0..had).for_each(|_| unsafe { raw.unlock_shared() });
        had
    }

    /// The closure of a once: stays where told to.
    fn once(&self, is_forced: bool, end: End, stay: &mut dyn FnMut() -> End) -> Outcome {
        let ran = Cell::new(0);
        F::call(&self.once, is_forced, |was_poisoned| {
            ran.set(1 + usize::from(was_poisoned));
            let end = if end == End::Stays { stay() } else { end };
            if end == End::Panics {
                std::panic::resume_unwind(Box::new("as told"));
            }
        });
        Outcome::Count(ran.get())
    }
}

fn until(by: By) -> Option<Instant> {
    let now = Instant::now();
    match by {
        By::Ever | By::Try => None,
        By::Past => Some(now.checked_sub(SOON).unwrap_or(now)),
        By::Soon => Some(now + SOON),
        By::Later => Some(now + LATER),
        By::Hour => Some(now + HOUR),
    }
}

fn take(raw: &impl AnyMutex, by: By) -> bool {
    match (by, until(by)) {
        (By::Ever, _) => raw.lock(),
        (By::Past, _) => return raw.try_lock_for(Duration::ZERO),
        (_, None) => return raw.try_lock(),
        (_, Some(until)) => return raw.try_lock_until(until),
    }
    true
}

/// Takes a read-write lock.
///
/// # Safety
/// The caller has the lock upgradable, if it wants to upgrade.
unsafe fn take_rw(raw: &impl AnyRwLock, want: Want, by: By) -> bool {
    match (want, by, until(by)) {
        (Want::Read, By::Ever, _) => raw.lock_shared(),
        (Want::Recursive, By::Ever, _) => raw.lock_shared_recursive(),
        (Want::Upgradable, By::Ever, _) => raw.lock_upgradable(),
        (Want::Write, By::Ever, _) => raw.lock_exclusive(),
        // SAFETY: the caller's.
        (Want::Upgrade, By::Ever, _) => unsafe { raw.upgrade() },
        (Want::Read, _, None) => return raw.try_lock_shared(),
        (Want::Recursive, _, None) => return raw.try_lock_shared_recursive(),
        (Want::Upgradable, _, None) => return raw.try_lock_upgradable(),
        (Want::Write, _, None) => return raw.try_lock_exclusive(),
        // SAFETY: the caller's.
        (Want::Upgrade, _, None) => return unsafe { raw.try_upgrade() },
        (Want::Read, _, Some(until)) => return raw.try_lock_shared_until(until),
        (Want::Recursive, _, Some(until)) => return raw.try_lock_shared_recursive_until(until),
        (Want::Upgradable, _, Some(until)) => return raw.try_lock_upgradable_until(until),
        (Want::Write, _, Some(until)) => return raw.try_lock_exclusive_until(until),
        // SAFETY: the caller's.
        (Want::Upgrade, _, Some(until)) => return unsafe { raw.try_upgrade_until(until) },
    }
    true
}

impl<F: Family> AnyLock<F> {
    /// Takes the lock.
    ///
    /// # Safety
    /// As of [`take_rw`].
    unsafe fn take(&self, want: Want, by: By) -> bool {
        match self {
            // SAFETY: a raw lock is used by this program of calls alone.
            Self::Mutex(mutex) => take(unsafe { mutex.raw() }, by),
            Self::Fair(raw) => take(raw, by),
            Self::Reentrant(raw) => match (by, until(by)) {
                (By::Ever, _) => {
                    raw.lock();
                    true
                }
                (_, None) => raw.try_lock(),
                (_, Some(until)) => raw.try_lock_until(until),
            },
            // SAFETY: the caller's.
            Self::Rw(raw) => unsafe { take_rw(raw, want, by) },
        }
    }

    /// Releases the lock, or lets others that wait have it in between.
    ///
    /// # Safety
    /// The caller holds the lock in this mode.
    unsafe fn release(&self, mode: Mode, how: Release) {
        macro_rules! by {
            ($raw:expr, $unfair:ident, $fair:ident, $bump:ident) => {{
                let raw = $raw;
                // SAFETY: the caller's.
                unsafe {
                    match how {
                        Release::Plain => raw.$unfair(),
                        Release::Fair => raw.$fair(),
                        Release::Bump => raw.$bump(),
                    }
                }
            }};
        }
        match (self, mode) {
            (Self::Mutex(mutex), _) => {
                // SAFETY: as in `take`.
                by!(unsafe { mutex.raw() }, unlock, unlock_fair, bump);
            }
            (Self::Fair(raw), _) => by!(raw, unlock, unlock_fair, bump),
            (Self::Reentrant(raw), _) => by!(raw, unlock, unlock_fair, bump),
            (Self::Rw(raw), Mode::Read) => {
                by!(raw, unlock_shared, unlock_shared_fair, bump_shared);
            }
            (Self::Rw(raw), Mode::Upgradable) => {
                by!(raw, unlock_upgradable, unlock_upgradable_fair, bump_upgradable);
            }
            (Self::Rw(raw), Mode::Write) => {
                by!(raw, unlock_exclusive, unlock_exclusive_fair, bump_exclusive);
            }
        }
    }

    fn is_locked(&self) -> bool {
        match self {
            Self::Mutex(mutex) => mutex.is_locked(),
            Self::Fair(raw) => raw.is_locked(),
            Self::Reentrant(raw) => raw.is_locked(),
            Self::Rw(raw) => raw.is_locked(),
        }
    }
}

#[derive(Clone, Copy)]
enum Release {
    Plain,
    Fair,
    Bump,
}

impl<F: Family> Subject for Locks<F> {
    fn call(&self, _: Thread, call: Call, stay: &mut dyn FnMut() -> End) -> Outcome {
        let yes = |is_so| if is_so { Outcome::Done } else { Outcome::Refused };
        match call {
            // SAFETY: the program of calls keeps to what it holds; so in the other arms.
            Call::Acquire(lock, want, by) => yes(unsafe { self.lock(lock).take(want, by) }),
            Call::Release(lock, mode, is_fair) => {
                let how = if is_fair { Release::Fair } else { Release::Plain };
                // SAFETY: as above.
                unsafe { self.lock(lock).release(mode, how) };
                Outcome::Done
            }
            Call::Bump(lock, mode) => {
                // SAFETY: as above.
                unsafe { self.lock(lock).release(mode, Release::Bump) };
                Outcome::Done
            }
            Call::Downgrade(lock, from, to) => {
                let raw = self.rw(lock);
                // SAFETY: as above.
                unsafe {
                    match (from, to) {
                        (Mode::Upgradable, _) => raw.downgrade_upgradable(),
                        (_, Mode::Upgradable) => raw.downgrade_to_upgradable(),
                        _ => raw.downgrade(),
                    }
                }
                Outcome::Done
            }
            Call::IsLocked(lock) => yes(self.lock(lock).is_locked()),
            Call::IsLockedExclusive(lock) => yes(self.rw(lock).is_locked_exclusive()),
            Call::ManyReads(lock, count) => Outcome::Count(self.many_reads(lock, count)),
            Call::Give(..) => Outcome::Done,
            Call::Swap => {
                // SAFETY: both are free, and no other call is under way.
                unsafe { self.locks[0].get().swap(self.locks[1].get()) };
                Outcome::Done
            }
            Call::Wait(lock, by) => yes(self.wait(lock, by)),
            Call::NotifyOne => yes(F::notify_one(&self.condvar)),
            Call::NotifyAll => Outcome::Count(F::notify_all(&self.condvar)),
            Call::Once(is_forced, end) => self.once(is_forced, end, stay),
            Call::OnceState => Outcome::Count(F::state(&self.once)),
            Call::Leave(_) | Call::Barrier => unreachable!("no call of a lock"),
        }
    }
}
