//! The locks under test, ours and the peers, in one table.
//!
//! Every use is monomorphised: the worker loop is compiled once for each lock with its fast path
//! inlined, as in an application. The table holds two function pointers per lock.

use crate::threads::run::RunSpec;
use crate::threads::subject::{Monitor, Subject};
use crate::threads::worker::{self, waits};
use overlock::counters::Uncounted;
use overlock::platform::{Native, Threads};
use overlock::{ConstLock, Hybrid, Queued, TestAndSet, Ticket};
use overlock_programs::thread_id;
use overlock_results::Run;
use overlock_results::locks::BROKEN;
use std::cell::UnsafeCell;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::time::Duration;

mod monitor;
mod read_write;

type Runs = fn(&RunSpec) -> io::Result<Run>;

#[derive(Debug)]
pub struct Entry {
    pub name: &'static str,
    pub(crate) run: Runs,
    /// The same with event counters compiled in, if the lock has any.
    pub(crate) run_counted: Runs,
    /// The same where threads wait for conditions, without and with counters, if it has condition
    /// variables.
    pub(crate) run_waits: Option<[Runs; 2]>,
    /// Nanoseconds of one uncontended pair, averaged over the given number of pairs.
    pub(crate) pair: fn(&crate::clock::Stamps, u32) -> f64,
}

overlock::lock_class!(
    /// The events of the lock under test; a process tests only one.
    pub(crate) Counted
);

/// A lock of ours, without and with counters.
const fn ours<L, C>(name: &'static str) -> Entry
where
    L: ConstLock + 'static,
    C: ConstLock + 'static,
{
    Entry { run_counted: worker::run::<Ours<C>>, ..entry::<Ours<L>>(name) }
}

/// One that also has condition variables.
const fn waiting<L, C>(name: &'static str) -> Entry
where
    L: ConstLock + 'static,
    C: ConstLock + 'static,
{
    let plain = waits::run::<monitor::Ours<L, Uncounted>>;
    Entry {
        run_waits: Some([plain, waits::run::<monitor::Ours<C, Counted>>]),
        ..ours::<L, C>(name)
    }
}

/// A read-write lock of ours, without and with counters.
const fn read_write(name: &'static str) -> Entry {
    let run_counted = worker::run::<read_write::Ours<Counted>>;
    let plain = entry::<read_write::Ours<Uncounted>>(name);
    Entry { run_counted, ..plain }
}

/// A lock of others, with condition variables.
const fn conditions<M: Monitor>(entry: Entry) -> Entry {
    Entry { run_waits: Some([waits::run::<M>; 2]), ..entry }
}

const fn entry<S: Subject>(name: &'static str) -> Entry {
    let run = worker::run::<S>;
    let pair = worker::pair::<S>;
    Entry { name, run, run_counted: run, run_waits: None, pair }
}

/// All locks, in the order in which help shows them.
const SUBJECTS: &[Entry] = &[
    waiting::<Hybrid<Threads>, Hybrid<Threads, Counted>>("hybrid"),
    waiting::<Queued<Threads>, Queued<Threads, Counted>>("queued"),
    waiting::<Ticket<Threads>, Ticket<Threads, Counted>>("ticket"),
    waiting::<TestAndSet<Threads>, TestAndSet<Threads, Counted>>("test-and-set"),
    ours::<Ticket<Native>, Ticket<Native, Counted>>("native-ticket"),
    conditions::<monitor::Std>(entry::<std::sync::Mutex<()>>("std")),
    conditions::<monitor::ParkingLot>(entry::<parking_lot::Mutex<()>>("parking-lot")),
    entry::<ParkingLotFair>("parking-lot-fair"),
    conditions::<monitor::Pthread>(entry::<Pthread>("pthread")),
    #[cfg(target_env = "gnu")]
    entry::<Adaptive>("pthread-adaptive"),
    entry::<PthreadSpin>("pthread-spin"),
    entry::<spin::mutex::TicketMutex<()>>("spin-ticket"),
    entry::<Yield>("yield"),
    read_write("rwlock"),
    entry::<std::sync::RwLock<()>>("std-rwlock"),
    entry::<parking_lot::RwLock<()>>("parking-lot-rwlock"),
    entry::<read_write::Pthread>("pthread-rwlock"),
    entry::<NoLock>("broken-noop"),
    entry::<Favourite>("broken-favourite"),
    entry::<read_write::Careless>("broken-reads"),
    conditions::<monitor::Forgetful>(entry::<NoLock>("broken-notify")),
];

pub fn find(name: &str) -> Option<&'static Entry> {
    SUBJECTS.iter().find(|entry| entry.name == name)
}

/// No lock at all, which shows what the harness itself costs.
pub const FLOOR: &str = "broken-noop";

/// Returns all locks that users can choose.
pub fn offered() -> impl Iterator<Item = &'static Entry> {
    SUBJECTS.iter().filter(|entry| !BROKEN.contains(&entry.name))
}

struct Ours<L>(L);

impl<L: ConstLock + 'static> Subject for Ours<L> {
    fn new() -> Self {
        Ours(L::NEW)
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.lock();
        let result = section();
        // SAFETY: taken three lines above, and a critical section that panics ends the whole run.
        unsafe { self.0.unlock() };
        result
    }
}

/// Locks whose guards release them, and that readers can share if there is a guard for that.
macro_rules! guarded {
    ($($lock:ty, $self:ident => $guard:expr $(, $shared:expr)?;)*) => {$(
        impl Subject for $lock {
            $(
                const SHARES: bool = true;

                #[inline]
                fn share<R>(&$self, section: impl FnOnce() -> R) -> R {
                    let _guard = $shared;
                    section()
                }
            )?

            fn new() -> Self {
                <$lock>::new(())
            }

            #[inline]
            fn with<R>(&$self, section: impl FnOnce() -> R) -> R {
                let _guard = $guard;
                section()
            }
        }
    )*};
}
use guarded;

guarded! {
    std::sync::Mutex<()>, self => self.lock().unwrap_or_else(PoisonError::into_inner);
    parking_lot::Mutex<()>, self => self.lock();
    spin::mutex::TicketMutex<()>, self => self.lock();
}

/// `parking_lot` with its fair unlock each time.
struct ParkingLotFair(parking_lot::Mutex<()>);

impl Subject for ParkingLotFair {
    fn new() -> Self {
        ParkingLotFair(parking_lot::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.0.lock();
        let result = section();
        parking_lot::MutexGuard::unlock_fair(guard);
        result
    }
}

/// Locks of the C library: initialised statically, or by a function at their final address.
macro_rules! pthread {
    ($($(#[$about:meta])* $name:ident($raw:ty) = $new:expr,
        $lock:ident, $unlock:ident $(, shared $share:ident)? $(, init $init:ident)?;)*) => {$(
        $(#[$about])*
        pub(super) struct $name(UnsafeCell<$raw>);

        // SAFETY: a lock of pthread is meant to be shared by all threads at one address.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl Subject for $name {
            $(
                const SHARES: bool = true;

                #[inline]
                fn share<R>(&self, section: impl FnOnce() -> R) -> R {
                    // SAFETY: as in `with`.
                    unsafe { libc::$share(self.0.get()) };
                    let result = section();
                    // SAFETY: as above, and this thread reads.
                    unsafe { libc::$unlock(self.0.get()) };
                    result
                }
            )?

            fn new() -> Self {
                $name(UnsafeCell::new($new))
            }

            $(fn init(&self) {
                // SAFETY: no other thread knows the lock yet, and it stays at this address.
                unsafe { libc::$init(self.0.get(), libc::PTHREAD_PROCESS_PRIVATE) };
            })?

            #[inline]
            fn with<R>(&self, section: impl FnOnce() -> R) -> R {
                // SAFETY: `new` or `init` initialised it where it is shared, and it stays there.
                unsafe { libc::$lock(self.0.get()) };
                let result = section();
                // SAFETY: as above, and this thread holds it.
                unsafe { libc::$unlock(self.0.get()) };
                result
            }
        }
    )*};
}
use pthread;

pthread! {
    Pthread(libc::pthread_mutex_t) = libc::PTHREAD_MUTEX_INITIALIZER,
        pthread_mutex_lock, pthread_mutex_unlock;
    PthreadSpin(libc::pthread_spinlock_t) = 0,
        pthread_spin_lock, pthread_spin_unlock, init pthread_spin_init;
}

#[cfg(target_env = "gnu")]
pthread! {
    Adaptive(libc::pthread_mutex_t) = libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
        pthread_mutex_lock, pthread_mutex_unlock;
}

/// A test-and-set lock that yields its CPU and never halts: unfair without bound, and never idle
/// for long while a thread that wants it runs.
struct Yield(AtomicBool);

/// Loads before each `sched_yield`, each after a PAUSE: 0.1 to 1 µs, as long as a short critical
/// section.
const LOOKS: u32 = 20;

impl Yield {
    #[cold]
    fn wait(&self) {
        loop {
            for _ in 0..LOOKS {
                // ORDERING: Acquire → the release in `with`.
                if !self.0.load(Relaxed) && !self.0.swap(true, Acquire) {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

impl Subject for Yield {
    fn new() -> Self {
        Yield(AtomicBool::new(false))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // ORDERING: Acquire → the release below.
        if self.0.swap(true, Acquire) {
            self.wait();
        }
        let result = section();
        // ORDERING: Release → the swaps above.
        self.0.store(false, Release);
        result
    }
}

/// No lock at all: the floor of a measurement with one thread, a broken lock with several.
struct NoLock;

impl Subject for NoLock {
    fn new() -> Self {
        NoLock
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// Excludes by starving: the first thread that comes has the lock whenever it likes, and no other
/// ever gets it.
struct Favourite(AtomicI32);

impl Subject for Favourite {
    fn new() -> Self {
        Favourite(AtomicI32::new(0))
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let own = thread_id();
        let _ = self.0.compare_exchange(0, own, Relaxed, Relaxed);
        while self.0.load(Relaxed) != own {
            std::thread::sleep(Duration::from_millis(1));
        }
        section()
    }
}
