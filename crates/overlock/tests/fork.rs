//! A child that is forked while other threads wait can use the locks that it holds and those that
//! were free.

#![cfg(feature = "threads")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use overlock::counters::Uncounted;
use overlock::platform::{Native, Platform, Threads};
use overlock::{ConstLock, Hybrid, Narrow, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

/// Runs `child` in a forked child; if the child panics or hangs, this test fails.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child's code takes no lock but Overlock's, and leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed"),
        0 => {
            // SAFETY: the only argument is a number of seconds; the signal kills a hung child.
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

/// Forks at arbitrary moments in the lives of the waiters.
fn fork_with_waiters<L: ConstLock + 'static>() {
    let held = Arc::new(L::NEW);
    held.lock();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let held = Arc::clone(&held);
            thread::spawn(move || {
                held.lock();
                // SAFETY: the line above took the lock.
                unsafe { held.unlock() };
            })
        })
        .collect();
    for pause_ms in [0, 1, 20] {
        thread::sleep(Duration::from_millis(pause_ms));
        in_child(|| {
            // SAFETY: the forking thread holds the lock, and the child has its own copy of it.
            unsafe { held.unlock() };
            for _ in 0..10_000 {
                held.lock();
                // SAFETY: the line above took the lock.
                unsafe { held.unlock() };
            }
            assert!(held.try_lock());
        });
    }
    // SAFETY: the lock was taken above, and the parent has not released its own copy since.
    unsafe { held.unlock() };
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn test_and_set() {
    fork_with_waiters::<TestAndSet<Threads>>();
}

#[test]
fn ticket() {
    fork_with_waiters::<Ticket<Threads>>();
    fork_with_waiters::<Ticket<Threads, Uncounted, Narrow>>();
}

#[test]
fn queued() {
    fork_with_waiters::<Queued<Threads>>();
}

#[test]
fn hybrid() {
    fork_with_waiters::<Hybrid<Threads>>();
}

/// Without numbers, only `Ticket` knows its waiters, and a child has no queue to leave.
#[test]
fn native() {
    fork_with_waiters::<TestAndSet<Native>>();
    fork_with_waiters::<Queued<Native>>();
    fork_with_waiters::<Hybrid<Native>>();
}

/// A child's own threads contend: the numbers of the parent's threads are free again.
#[test]
fn a_child_can_have_threads_that_wait() {
    let lock: Arc<Hybrid<Threads>> = Arc::new(Hybrid::new());
    lock.lock();
    let waiter = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            lock.lock();
            // SAFETY: the line above took the lock.
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
                        // SAFETY: the line above took the lock.
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
    // SAFETY: the lock was taken above.
    unsafe { lock.unlock() };
    waiter.join().unwrap();
}

/// The queue in which the forking thread gave up a place does not exist in the child.
fn fork_after_giving_up<L: ConstLock + RawTimedLock + 'static>() {
    let lock = Arc::new(L::NEW);
    lock.lock();
    // SAFETY: each caller holds the lock.
    let unlock = |lock: &L| unsafe { lock.unlock() };
    let waits = {
        let lock = Arc::clone(&lock);
        move || {
            lock.lock();
            unlock(&lock);
        }
    };
    let waiter = thread::spawn(waits.clone());
    thread::sleep(Duration::from_millis(20));
    let gives_up = Arc::clone(&lock);
    let forker = thread::spawn(move || {
        assert!(!gives_up.try_lock_until(Threads::now_ns() + 1_000_000), "the lock is held");
        in_child(|| {
            let (lock, (taken, has_taken)) = (&gives_up, std::sync::mpsc::channel());
            // In the parent another thread holds the lock; the child's copy is its own.
            unlock(lock);
            thread::scope(|scope| {
                scope.spawn(move || {
                    lock.lock();
                    taken.send(()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                    unlock(lock);
                });
                has_taken.recv().unwrap();
                lock.lock();
                unlock(lock);
            });
        });
    });
    forker.join().unwrap();
    unlock(&lock);
    waiter.join().unwrap();
    waits();
}

#[test]
fn a_child_does_not_go_back_to_a_place_that_was_given_up() {
    fork_after_giving_up::<Queued<Threads>>();
    fork_after_giving_up::<Hybrid<Threads>>();
}

/// A lock in a mapping of its own, which is never unmapped.
fn mapped<L: ConstLock>(flags: i32) -> &'static L {
    let (length, access) = (size_of::<L>().max(1), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: this makes a new mapping, which nothing else uses.
    let page = unsafe {
        libc::mmap(std::ptr::null_mut(), length, access, flags | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    let lock = page.cast::<L>();
    // SAFETY: the mapping is large enough, aligned to a page, and stays.
    unsafe {
        lock.write(L::NEW);
        &*lock
    }
}

/// Forks while threads wait for a lock in memory that the child must not mend.
fn fork_beside<L: ConstLock + 'static>(flags: i32, advice: Option<i32>) {
    let held: &'static L = mapped::<L>(flags);
    if let Some(advice) = advice {
        let page = std::ptr::from_ref(held).cast_mut().cast();
        // SAFETY: the page belongs to the mapping; only what a child gets of it changes.
        assert_eq!(unsafe { libc::madvise(page, size_of::<L>().max(1), advice) }, 0);
    }
    held.lock();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            thread::spawn(|| {
                held.lock();
                // SAFETY: the line above took the lock.
                unsafe { held.unlock() };
            })
        })
        .collect();
    for pause_ms in [1, 20] {
        thread::sleep(Duration::from_millis(pause_ms));
        in_child(|| {});
    }
    assert!(held.is_locked() && !held.try_lock(), "the child has written to the parent's lock");
    // SAFETY: the lock was taken above.
    unsafe { held.unlock() };
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(held.try_lock());
}

#[test]
fn a_child_leaves_locks_in_shared_memory_alone() {
    fork_beside::<Hybrid<Threads>>(libc::MAP_SHARED, None);
    fork_beside::<Queued<Threads>>(libc::MAP_SHARED, None);
    fork_beside::<Ticket<Threads>>(libc::MAP_SHARED, None);
    fork_beside::<TestAndSet<Threads>>(libc::MAP_SHARED, None);
}

#[test]
fn a_child_leaves_locks_alone_that_it_does_not_have() {
    fork_beside::<Hybrid<Threads>>(libc::MAP_PRIVATE, Some(libc::MADV_DONTFORK));
    fork_beside::<Queued<Threads>>(libc::MAP_PRIVATE, Some(libc::MADV_DONTFORK));
    fork_beside::<Ticket<Threads>>(libc::MAP_PRIVATE, Some(libc::MADV_DONTFORK));
    fork_beside::<TestAndSet<Threads>>(libc::MAP_PRIVATE, Some(libc::MADV_DONTFORK));
}
