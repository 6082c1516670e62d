//! Read-write locks and condition variables: one suite for each on every platform, and broken ones
//! that the oracles must notice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::support::family::{self, Conditional, Shared, With, conditional, shared};
use crate::support::likeness::{AddressAlone, Numberless, Spinning, Unmended};
use crate::support::oracle::{self, Check, elsewhere};
use overlock::lock_api::Nanos;
use overlock::platform::{Native, Platform, Shared as Processes, Threads};
use overlock::{
    Hybrid, RawLock, RawRwLock, RwLockUpgradableGuard, RwLockWriteGuard, TestAndSet, ThreadCondvar,
    ThreadMutex, ThreadRwLock, Ticket,
};

/// How long a subject may make no progress.
const LIMIT: Duration = Duration::from_secs(60);

macro_rules! read_write {
    ($($name:ident: $lock:ty, threads $threads:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn excludes() {
                family::excludes(shared::<$lock>, $threads, 8_000 / $threads as u64, 4).unwrap();
                family::excludes(shared::<$lock>, $threads, 8_000 / $threads as u64, 2).unwrap();
            }

            #[test]
            fn writers_exclude() {
                oracle::excludes(oracle::new::<$lock>, $threads, 20_000 / $threads as u64, 3).unwrap();
                oracle::tries_truly(oracle::new::<$lock>).unwrap();
            }

            #[test]
            fn reads_together() {
                family::reads_together(shared::<$lock>, 3, LIMIT).unwrap();
            }

            #[test]
            fn does_not_starve_writers() {
                family::does_not_starve_writers(shared::<$lock>, 3, 100_000).unwrap();
            }

            #[test]
            fn loses_no_waiter() {
                family::loses_no_waiter(shared::<$lock>, $threads, 20, LIMIT).unwrap();
            }
        }
    )*};
}

read_write! {
    rw_threads: RawRwLock<Threads>, threads 16;
    rw_processes: RawRwLock<Processes>, threads 8;
    rw_native: RawRwLock<Native>, threads 2;
    rw_spinning: RawRwLock<Spinning>, threads 2;
}

macro_rules! condition {
    ($($name:ident: $subject:ty, takers $takers:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn notifies() {
                family::notifies(conditional::<$subject>, $takers, 200, LIMIT).unwrap();
                family::broadcasts(conditional::<$subject>, $takers, 100, LIMIT).unwrap();
            }
        }
    )*};
}

/// On platforms whose clock stands still, no deadline passes.
#[test]
fn condition_variables_pass_notifications_on() {
    family::passes_notifications_on(conditional::<With<Threads, Hybrid<Threads>>>, 300, LIMIT)
        .unwrap();
    family::passes_notifications_on(conditional::<With<Threads, RawRwLock<Threads>>>, 300, LIMIT)
        .unwrap();
}

condition! {
    cond_hybrid: With<Threads, Hybrid<Threads>>, takers 8;
    cond_ticket: With<Threads, Ticket<Threads>>, takers 4;
    cond_read_write: With<Threads, RawRwLock<Threads>>, takers 4;
    cond_native_mutex: With<Threads, TestAndSet<Native>>, takers 2;
    cond_numbers: With<Unmended, Hybrid<Unmended>>, takers 4;
    cond_numberless: With<Numberless, Hybrid<Threads>>, takers 4;
    cond_by_address_alone: With<AddressAlone, TestAndSet<Native>>, takers 2;
    cond_processes: With<Processes, TestAndSet<Processes>>, takers 4;
    cond_native: With<Native, TestAndSet<Native>>, takers 2;
}

/// A lock of two futex words, and its fault.
struct Faulty<const FAULT: u32>(AtomicU32);

/// Readers always come in.
const PREFERS_READERS: u32 = 0;
/// The last reader kicks no writer.
const FORGETS_THE_KICK: u32 = 1;
/// A reader comes in beside a writer.
const LETS_READERS_IN: u32 = 2;
/// A reader waits for the one before it to leave.
const READS_ALONE: u32 = 3;

const WRITER: u32 = 1 << 31;

impl<const FAULT: u32> Faulty<FAULT> {
    fn take(&self, taken: impl Fn(u32) -> Option<u32>) {
        loop {
            let seen = self.0.load(SeqCst);
            match taken(seen) {
                Some(new) => {
                    if self.0.compare_exchange(seen, new, SeqCst, SeqCst).is_ok() {
                        return;
                    }
                }
                None => Threads::wait(&self.0, seen, None),
            }
        }
    }
}

impl<const FAULT: u32> Shared for Faulty<FAULT> {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    fn read(&self) {
        let most = if FAULT == READS_ALONE { 1 } else { WRITER - 1 };
        self.take(|seen| {
            let admits = seen & WRITER == 0 || FAULT == LETS_READERS_IN;
            (admits && seen & !WRITER < most).then_some(seen + 1)
        });
    }
    fn end_read(&self) {
        self.0.fetch_sub(1, SeqCst);
        if FAULT != FORGETS_THE_KICK {
            Threads::kick_every(&raw const self.0);
        }
    }
    fn write(&self) {
        self.take(|seen| {
            let admits = seen == 0 || FAULT == LETS_READERS_IN && seen & WRITER == 0;
            admits.then_some(seen | WRITER)
        });
    }
    fn end_write(&self) {
        self.0.fetch_and(!WRITER, SeqCst);
        Threads::kick_every(&raw const self.0);
    }
}

/// How long a broken subject may make no progress.
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn a_lock_that_prefers_readers_starves_writers() {
    // Few enough that the readers pass each other the lock without one losing its processor.
    let verdict = family::does_not_starve_writers(shared::<Faulty<PREFERS_READERS>>, 100, 1_000);
    assert!(verdict.unwrap_err().ends_with("readers passed a writer"));
}

#[test]
fn a_reader_beside_a_writer_sees_half_a_section() {
    let verdict = family::excludes(shared::<Faulty<LETS_READERS_IN>>, 4, 400_000, 2);
    assert!(verdict.is_err());
}

/// A condition variable of the standard library's parts, and its fault.
struct Waiters<const FAULT: u32> {
    mutex: Hybrid<Threads>,
    waiters: Mutex<Vec<(Thread, Arc<AtomicBool>)>>,
}

/// A waiter that is notified as its time is up reports that it was not.
const LOSES_IT_AT_THE_DEADLINE: u32 = 0;
/// A waiter joins the list after it has released the mutex.
const JOINS_LATE: u32 = 1;
const NOTIFIES_ONE: u32 = 2;

impl<const FAULT: u32> Conditional for Waiters<FAULT> {
    fn new() -> Self {
        Self { mutex: Hybrid::new(), waiters: Mutex::new(Vec::new()) }
    }
    fn lock(&self) {
        self.mutex.lock();
    }
    fn unlock(&self) {
        // SAFETY: the oracles release what they have taken.
        unsafe { self.mutex.unlock() };
    }
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let notified = Arc::new(AtomicBool::new(false));
        if FAULT == JOINS_LATE {
            self.unlock();
            thread::sleep(Duration::from_micros(100));
        }
        self.waiters.lock().unwrap().push((thread::current(), Arc::clone(&notified)));
        if FAULT != JOINS_LATE {
            self.unlock();
        }
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => {
                while !notified.load(SeqCst) {
                    thread::park();
                }
            }
        }
        self.waiters.lock().unwrap().retain(|(_, other)| !Arc::ptr_eq(other, &notified));
        self.mutex.lock();
        timeout.is_none()
    }
    fn notify_one(&self) {
        let mut waiters = self.waiters.lock().unwrap();
        if !waiters.is_empty() {
            let (thread, notified) = waiters.remove(0);
            notified.store(true, SeqCst);
            thread.unpark();
        }
    }
    fn notify_all(&self) {
        let waiting = self.waiters.lock().unwrap().len();
        for _ in 0..if FAULT == NOTIFIES_ONE { 1 } else { waiting } {
            self.notify_one();
        }
    }
}

/// (By its name it comes late: some of the threads that it leaves behind spin.)
#[test]
fn waiters_that_a_fault_loses_are_missed() {
    let faults: [(&str, Check); 5] = [
        ("the last reader forgets the kick", || {
            // A writer that comes after the last reader wakes the others: so many bursts.
            family::loses_no_waiter(shared::<Faulty<FORGETS_THE_KICK>>, 8, 5_000, SHORT)
        }),
        ("readers read alone", || family::reads_together(shared::<Faulty<READS_ALONE>>, 3, SHORT)),
        ("a notification is lost at a deadline", || {
            family::passes_notifications_on(
                conditional::<Waiters<LOSES_IT_AT_THE_DEADLINE>>,
                20_000,
                SHORT,
            )
        }),
        ("a waiter joins late", || {
            family::notifies(conditional::<Waiters<JOINS_LATE>>, 2, 100_000, SHORT)
        }),
        ("a broadcast reaches one", || {
            family::broadcasts(conditional::<Waiters<NOTIFIES_ONE>>, 4, 1_000, SHORT)
        }),
    ];
    oracle::all_lose_a_waiter(&faults);
}

#[test]
fn an_upgrade_waits_for_readers_and_keeps_writers_out() {
    let lock = ThreadRwLock::new(0_u32);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let seen = lock.upgradable_read();
                    let before = *seen;
                    let mut write = RwLockUpgradableGuard::upgrade(seen);
                    assert_eq!(*write, before);
                    *write += 1;
                    let after = *write;
                    assert_eq!(*RwLockWriteGuard::downgrade(write), after);
                    *lock.write() += 1;
                    assert!(*lock.read() > after);
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), 4_000);
}

#[test]
fn a_timed_wait_ends_no_earlier_than_its_deadline() {
    let (mutex, condvar) = (ThreadMutex::new(false), ThreadCondvar::new());
    let lock = ThreadRwLock::new(());
    let held = lock.write();
    for ms in [0, 1, 7] {
        let deadline_ns = Threads::now_ns() + ms * 1_000_000;
        let mut guard = mutex.lock();
        let waited = condvar.wait_while_until(&mut guard, |ready| !*ready, deadline_ns);
        assert!(waited.timed_out() && Threads::now_ns() >= deadline_ns);
        let deadline_ns = Threads::now_ns() + ms * 1_000_000;
        let taken = elsewhere(|| lock.try_read_until(Nanos(deadline_ns)).is_some());
        assert!(!taken && Threads::now_ns() >= deadline_ns);
    }
    drop(held);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn they_are_small_and_start_as_zeros() {
    assert_eq!(size_of::<RawRwLock<Threads>>(), 4);
    assert_eq!(size_of::<ThreadRwLock<()>>(), 4);
    assert_eq!(size_of::<ThreadCondvar>(), 36);
    static STATIC: RawRwLock<Threads> = RawRwLock::new();
    // SAFETY: a lock of one word, which no thread uses.
    assert_eq!(unsafe { *(&raw const STATIC).cast::<u32>() }, 0);
    assert_eq!(format!("{STATIC:?}"), "RawRwLock { locked: false, .. }");
}
