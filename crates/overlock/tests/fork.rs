//! A child that is forked while other threads wait can use the locks it holds and those that were
//! free.

#![cfg(feature = "threads")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use overlock::counters::{Counters, Event};
use overlock::platform::Threads;
use overlock::{ConstLock, Hybrid, Narrow, Queued, RawLock, TestAndSet, Ticket, lock_class};

/// Runs `child` in a forked child; its panic or hang is this test's.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child runs code that takes no lock but Overlock's, and leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed"),
        0 => {
            // SAFETY: no arguments but a number of seconds: a hung child is killed by the signal.
            unsafe { libc::alarm(120) };
            let sound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!sound)) };
        }
        pid => {
            let mut status = 0;
            // SAFETY: `status` is valid to write to; `pid` is our child.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert_eq!((waited, status), (pid, 0), "the child hung or failed");
        }
    }
}

const WAITERS: u64 = 6;

/// Forks at moments in the lives of the waiters that nobody chose, once `settled`.
fn fork_with_waiters<L: ConstLock + 'static>(settled: impl Fn() -> bool) {
    let held = Arc::new(L::NEW);
    held.lock();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let held = Arc::clone(&held);
            thread::spawn(move || {
                held.lock();
                // SAFETY: locked in the line before.
                unsafe { held.unlock() };
            })
        })
        .collect();
    let patience = Instant::now() + Duration::from_secs(60);
    while !settled() {
        assert!(Instant::now() < patience, "the waiters do not halt");
        thread::yield_now();
    }
    for settle_ms in [0, 1, 20] {
        thread::sleep(Duration::from_millis(settle_ms));
        in_child(|| {
            // SAFETY: the forking thread holds the lock, and its copy is the child's.
            unsafe { held.unlock() };
            for _ in 0..10_000 {
                held.lock();
                // SAFETY: locked in the line before.
                unsafe { held.unlock() };
            }
            assert!(held.try_lock());
        });
    }
    // SAFETY: locked above, and the parent's own copy never released since.
    unsafe { held.unlock() };
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn test_and_set() {
    fork_with_waiters::<TestAndSet<Threads>>(|| true);
}

#[test]
fn ticket() {
    lock_class!(Tickets);
    lock_class!(NarrowTickets);
    // A waiter is not found between its ticket and its trace (see "Limits" there), so all must have
    // halted once.
    let halted = |counters: &Counters| counters.get(Event::PvWaitNode) >= WAITERS;
    fork_with_waiters::<Ticket<Threads, Tickets>>(|| halted(Tickets::counters()));
    fork_with_waiters::<Ticket<Threads, NarrowTickets, Narrow>>(|| {
        halted(NarrowTickets::counters())
    });
}

#[test]
fn queued() {
    fork_with_waiters::<Queued<Threads>>(|| true);
}

#[test]
fn hybrid() {
    fork_with_waiters::<Hybrid<Threads>>(|| true);
}

/// Children contend among their own threads: the numbers of the parent's threads are free again.
#[test]
fn a_child_can_have_threads_that_wait() {
    let lock: Arc<Hybrid<Threads>> = Arc::new(Hybrid::new());
    lock.lock();
    let waiter = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            lock.lock();
            // SAFETY: locked in the line before.
            unsafe { lock.unlock() };
        })
    };
    thread::sleep(Duration::from_millis(5));
    in_child(|| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    for _ in 0..1_000 {
                        lock.lock();
                        // SAFETY: locked in the line before.
                        unsafe { lock.unlock() };
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(5));
        // SAFETY: the forking thread holds the lock.
        unsafe { lock.unlock() };
        for thread in threads {
            thread.join().unwrap();
        }
    });
    // SAFETY: locked above.
    unsafe { lock.unlock() };
    waiter.join().unwrap();
}
