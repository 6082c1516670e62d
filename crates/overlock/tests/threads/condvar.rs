//! What a condition variable does when a waiter is stopped, panics, gives up or is left in another
//! process: no other waiter notices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use overlock::platform::{Native, Platform, Shared, Threads};
use overlock::{Mutex, Queued, RawCondvar, RawLock, TestAndSet, ThreadCondvar, ThreadMutex};

use crate::support::child::Child;
use crate::support::oracle::ends_soon;
use crate::support::pages::pages;

/// A mutex and a condition variable, and how many threads wait for `0` to change.
struct Monitor {
    mutex: ThreadMutex<(u32, usize)>,
    changed: ThreadCondvar,
}

impl Monitor {
    const fn new() -> Self {
        Self { mutex: ThreadMutex::new((0, 0)), changed: ThreadCondvar::new() }
    }

    fn wait_once(&self, timeout: Duration) -> bool {
        let mut guard = self.mutex.lock();
        guard.1 += 1;
        let notified = !self.changed.wait_for(&mut guard, timeout).timed_out();
        guard.1 -= 1;
        notified
    }

    /// Returns once so many threads wait, and have had the time to halt.
    fn has(&self, waiters: usize) {
        while self.mutex.lock().1 < waiters {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

const LONG: Duration = Duration::from_secs(100);

static GOES_ON: AtomicBool = AtomicBool::new(false);
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: i32) {
    IS_STOPPED.store(true, SeqCst);
    while !GOES_ON.load(SeqCst) {
        // SAFETY: no memory is passed.
        unsafe { libc::usleep(1_000) };
    }
}

/// As a collector, a profiler or a debugger stops it: the first of ten waiters is in a handler.
#[test]
fn a_stopped_waiter_keeps_no_other_from_waking() {
    let _ends = ends_soon();
    static MONITOR: Monitor = Monitor::new();
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the handler only stores, loads and sleeps.
    unsafe { libc::signal(libc::SIGUSR2, stop as *const () as usize) };
    let (send, receive) = mpsc::channel();
    let waiter = || {
        thread::spawn(|| {
            let mut guard = MONITOR.mutex.lock();
            guard.1 += 1;
            MONITOR.changed.wait_while(&mut guard, |state| state.0 == 0);
            WOKEN.fetch_add(1, SeqCst);
        })
    };
    let first = thread::spawn(move || {
        // SAFETY: the calling thread is alive.
        send.send(unsafe { libc::pthread_self() }).unwrap();
        let mut guard = MONITOR.mutex.lock();
        guard.1 += 1;
        MONITOR.changed.wait_while(&mut guard, |state| state.0 == 0);
    });
    MONITOR.has(1);
    let others: Vec<_> = (0..9).map(|_| waiter()).collect();
    MONITOR.has(10);
    // SAFETY: the thread waits.
    unsafe { libc::pthread_kill(receive.recv().unwrap(), libc::SIGUSR2) };
    while !IS_STOPPED.load(SeqCst) {
        thread::yield_now();
    }
    MONITOR.mutex.lock().0 = 1;
    assert_eq!(MONITOR.changed.notify_all(), 10);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(WOKEN.load(SeqCst), 9);
    GOES_ON.store(true, SeqCst);
    first.join().unwrap();
}

extern "C" fn pass(_: i32) {}

/// A handler runs in the middle of a wait, which goes on.
#[test]
fn a_signal_ends_no_wait() {
    let _ends = ends_soon();
    static MONITOR: Monitor = Monitor::new();
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGURG, pass as *const () as usize) };
    let (send, receive) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // SAFETY: the calling thread is alive.
        send.send(unsafe { libc::pthread_self() }).unwrap();
        assert!(MONITOR.wait_once(LONG));
        IS_OVER.store(true, SeqCst);
    });
    MONITOR.has(1);
    let thread = receive.recv().unwrap();
    for _ in 0..20 {
        // SAFETY: the thread waits.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGURG) }, 0);
        thread::sleep(Duration::from_millis(1));
        assert!(!IS_OVER.load(SeqCst));
    }
    assert!(MONITOR.changed.notify_one());
    waiter.join().unwrap();
}

/// A thread has left its nodes in the queues of four locks.
#[test]
fn waits_given_up_elsewhere_leave_a_wait_that_waits() {
    let _ends = ends_soon();
    let locks = [const { Mutex::<(), Queued<Threads>>::new(()) }; 4];
    let monitor = Monitor::new();
    let (gave_up, has_given_up) = mpsc::channel();
    thread::scope(|scope| {
        let held: Vec<_> = locks.iter().map(Mutex::lock).collect();
        for lock in &locks {
            scope.spawn(|| drop(lock.lock()));
        }
        thread::sleep(Duration::from_millis(20));
        let (monitor, locks) = (&monitor, &locks);
        scope.spawn(move || {
            for lock in locks {
                assert!(lock.try_lock_for(Duration::from_millis(2)).is_none());
            }
            // It would return as notified.
            assert!(!monitor.wait_once(Duration::from_millis(5)));
            gave_up.send(()).unwrap();
            assert!(monitor.wait_once(LONG));
        });
        has_given_up.recv().unwrap();
        while !monitor.changed.notify_one() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(held);
    });
}

/// Every notification counts one waiter, and wakes the one that has slept longest.
#[test]
fn notifications_are_counted_and_come_in_turn() {
    let _ends = ends_soon();
    let monitor = Monitor::new();
    let (send, woken) = mpsc::channel();
    thread::scope(|scope| {
        for (index, timeout) in
            [LONG, Duration::from_millis(1), LONG, LONG, LONG].into_iter().enumerate()
        {
            let (monitor, send) = (&monitor, send.clone());
            scope.spawn(move || send.send((index, monitor.wait_once(timeout))).unwrap());
            match index {
                1 => assert_eq!(woken.recv(), Ok((1, false))),
                2.. => monitor.has(index),
                _ => monitor.has(1),
            }
        }
        for index in [0, 2] {
            assert!(monitor.changed.notify_one());
            assert_eq!(woken.recv(), Ok((index, true)));
        }
        // Under the lock, which the notified thread wants: it counts no more.
        let guard = monitor.mutex.lock();
        assert!(monitor.changed.notify_one());
        assert_eq!((monitor.changed.notify_all(), monitor.changed.notify_all()), (1, 0));
        assert!(!monitor.changed.notify_one());
        drop(guard);
        let mut last = [woken.recv().unwrap(), woken.recv().unwrap()];
        last.sort_unstable();
        assert_eq!(last, [(3, true), (4, true)]);
    });
}

/// A lock whose release panics once it is done.
struct Panics(TestAndSet<Native>, AtomicBool);

// SAFETY: that of the lock inside.
unsafe impl RawLock for Panics {
    fn lock(&self) {
        self.0.lock();
    }
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }
    unsafe fn unlock(&self) {
        // SAFETY: the caller's.
        unsafe { self.0.unlock() };
        assert!(!self.1.load(SeqCst), "a release that panics");
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// The CPU that notified it may be about to release the lock, if this one leaves its processor.
#[test]
fn a_waiter_that_has_halted_takes_the_lock_without_spinning() {
    let spins = || Threads::costs().spins;
    let deadline = Some(Threads::now_ns() + 20_000_000);
    let condvar = RawCondvar::<Threads>::new();
    assert!(!condvar.wait_between(deadline, || assert!(spins()), || assert!(!spins())));
    assert!(spins());
    let takes = || panic!("a lock that panics");
    assert!(catch_unwind(|| condvar.wait_between(deadline, || {}, takes)).is_err() && spins());
}

#[test]
fn a_panic_while_the_lock_is_released_leaves_no_waiter() {
    let _ends = ends_soon();
    let condvar = RawCondvar::<Threads>::new();
    let panicked = catch_unwind(|| {
        condvar.wait_between(None, || panic!("a release that panics"), || unreachable!());
    });
    assert!(panicked.is_err() && !condvar.has_waiters() && !condvar.notify_one());
    // It had been notified by then, and passes that on.
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let release = || {
                scope.spawn(|| {
                    let passes = || {
                        passed.fetch_add(1, SeqCst);
                    };
                    condvar.wait_between(None, passes, passes);
                });
                while passed.load(SeqCst) == 0 {
                    thread::yield_now();
                }
                assert!(condvar.notify_one());
                panic!("a release that panics");
            };
            condvar.wait_between(None, release, || unreachable!());
        }));
        assert!(panicked.is_err());
    });
    assert!(passed.load(SeqCst) == 2 && !condvar.has_waiters());
    let mutex = Mutex::with(Panics(TestAndSet::new(), AtomicBool::new(true)), ());
    let changed = ThreadCondvar::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = std::mem::ManuallyDrop::new(mutex.lock());
        changed.wait(&mut guard);
    }));
    assert!(panicked.is_err() && !changed.raw().has_waiters() && !mutex.is_locked());
    for panics_after in 0..2 {
        let mutex = ThreadMutex::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let holds = |asked: &mut i32| {
                assert!(*asked < panics_after, "a condition that panics");
                *asked += 1;
                true
            };
            let _ = changed.wait_while_for(&mut mutex.lock(), holds, Duration::from_millis(1));
        }));
        assert!(panicked.is_err() && !changed.raw().has_waiters() && !mutex.is_locked());
    }
}

/// A child has no waiters of its parent; its own wait, and are woken.
#[test]
fn a_forked_child_notifies_its_own_waiters_alone() {
    let _ends = ends_soon();
    static MONITOR: Monitor = Monitor::new();
    for _ in 0..2 {
        thread::spawn(|| MONITOR.wait_once(LONG));
    }
    MONITOR.has(2);
    let held = MONITOR.mutex.lock();
    let child = Child::new(|| {
        // SAFETY: the forking thread holds it, and the child has a copy of its own.
        unsafe { MONITOR.mutex.raw().unlock() };
        assert!(!MONITOR.changed.notify_one() && MONITOR.changed.notify_all() == 0);
        for _ in 0..3 {
            let waiter = thread::spawn(|| MONITOR.wait_once(LONG));
            MONITOR.has(3);
            assert!(MONITOR.changed.notify_one() && !MONITOR.changed.notify_one());
            assert!(waiter.join().unwrap());
        }
    });
    drop(held);
    assert!(child.ends_well(), "the child hung or failed");
    assert_eq!(MONITOR.changed.notify_all(), 2);
}

/// Two processes take turns, in memory that both see.
#[test]
fn processes_share_a_condition_variable() {
    let _ends = ends_soon();
    struct Both {
        mutex: TestAndSet<Shared>,
        changed: RawCondvar<Shared>,
        turn: AtomicU32,
    }
    // SAFETY: a page of zeros, which are a free lock and a condition variable without waiters.
    let both = unsafe { &*pages::<Both>(1, libc::MAP_SHARED) };
    let takes_turns = |mine: u32| {
        for turn in (mine..100).step_by(2) {
            both.mutex.lock();
            while both.turn.load(SeqCst) != turn {
                // SAFETY: locked above.
                unsafe { both.changed.wait(&both.mutex) };
            }
            both.turn.store(turn + 1, SeqCst);
            // SAFETY: locked above.
            unsafe { both.mutex.unlock() };
            both.changed.notify_one();
        }
    };
    let child = Child::new(|| takes_turns(1));
    takes_turns(0);
    assert!(child.ends_well() && both.turn.load(SeqCst) == 100);
}
