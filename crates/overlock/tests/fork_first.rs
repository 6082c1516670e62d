//! A fork is under way while the program contends for its first lock: the child is mended all the
//! same. This is the only test here, because a process has only one first lock.

#![cfg(feature = "threads")]

#[path = "threads/support/child.rs"]
mod child;

use std::thread;
use std::time::Duration;

use overlock::counters::Event;
use overlock::platform::Threads;
use overlock::{Queued, RawLock, lock_class};

lock_class!(First);

static LOCK: Queued<Threads, First> = Queued::new();

/// Runs in the forking thread, after `fork` has chosen the handlers that it will run.
extern "C" fn contend() {
    thread::spawn(|| {
        LOCK.lock();
        // SAFETY: the line above took the lock.
        unsafe { LOCK.unlock() };
    });
    let first_halts = || First::counters().get(Event::PvWaitHead) > 0;
    for _ in 0..60_000 {
        if first_halts() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // This ends the process, because it can't unwind from here.
    panic!("the waiter does not halt");
}

#[test]
fn a_fork_during_the_first_contention() {
    LOCK.lock();
    // SAFETY: the handler stays valid for the life of the program.
    assert_eq!(unsafe { libc::pthread_atfork(Some(contend), None, None) }, 0);
    child::in_child(|| {
        // SAFETY: the forking thread holds the lock, and the child has its own copy of it.
        unsafe { LOCK.unlock() };
        LOCK.lock();
        // SAFETY: the line above took the lock.
        unsafe { LOCK.unlock() };
        assert!(LOCK.try_lock());
    });
}
