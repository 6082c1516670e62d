//! A child that is forked while other threads wait can use the locks that it holds and those that
//! were free.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::alone::is_alone;
use crate::support::child::in_child;
use crate::support::oracle::{Verdict, beside, sleeps, thread_id, watched};
use crate::support::pages::pages;
use overlock::counters::Uncounted;
use overlock::platform::{Native, Platform, Threads};
use overlock::raw::Narrow;
use overlock::{ConstLock, Hybrid, Queued, RawLock, RawRwLock, RawTimedLock, TestAndSet, Ticket};

const WAITERS: usize = 6;

/// Forks at arbitrary moments in the lives of the waiters.
fn fork_with_waiters<L: ConstLock + 'static>() {
    let held = L::NEW;
    let use_it = || {
        held.lock();
        // SAFETY: the line above took the lock.
        unsafe { held.unlock() };
    };
    held.lock();
    beside(WAITERS, &|_| use_it(), || {
        for pause_ms in [0, 1, 20] {
            thread::sleep(Duration::from_millis(pause_ms));
            in_child(|| {
                // SAFETY: the forking thread holds the lock, and the child has its own copy of it.
                unsafe { held.unlock() };
                (0..10_000).for_each(|_| use_it());
                assert!(held.try_lock());
            });
        }
        // SAFETY: the lock was taken above, and the parent has not released its own copy since.
        unsafe { held.unlock() };
    })
    .unwrap();
}

each_lock! { fork_with_waiters }

#[test]
fn fork_with_other_waiters() {
    fork_with_waiters::<Ticket<Threads, Uncounted, Narrow>>();
    fork_with_waiters::<RawRwLock<Threads>>();
}

/// Without numbers, only `Ticket` knows its waiters, and a child has no queue to leave. (A child
/// can't use a `Ticket` that a thread waited for: see Limits in `raw/ticket.rs`.)
#[test]
fn native() {
    fork_with_waiters::<TestAndSet<Native>>();
    fork_with_waiters::<Queued<Native>>();
    fork_with_waiters::<Hybrid<Native>>();
}

/// A child's own threads contend: the numbers of the parent's threads are free again.
#[test]
fn a_child_can_have_threads_that_wait() {
    let lock = Hybrid::<Threads>::new();
    let uses = |times: u32| {
        for _ in 0..times {
            lock.lock();
            // SAFETY: the line above took the lock.
            unsafe { lock.unlock() };
        }
    };
    let wait_and_unlock = || {
        thread::sleep(Duration::from_millis(5));
        // SAFETY: the forking thread holds the lock.
        unsafe { lock.unlock() };
    };
    lock.lock();
    beside(1, &|_| uses(1), || {
        thread::sleep(Duration::from_millis(5));
        in_child(|| beside(4, &|_| uses(1_000), wait_and_unlock).unwrap());
        wait_and_unlock();
    })
    .unwrap();
}

/// The queue in which the forking thread gave up a place does not exist in the child.
///
/// Nothing of it lies on the stack of another thread than the one that forks: libc gives those
/// stacks to the child's own threads, or unmaps them.
fn fork_after_giving_up<L: ConstLock + RawTimedLock + 'static>() {
    let lock: &'static L = Box::leak(Box::new(L::NEW));
    lock.lock();
    // SAFETY: each caller holds the lock.
    let unlock = move || unsafe { lock.unlock() };
    let waits = move || {
        lock.lock();
        unlock();
    };
    let gives_up = move || {
        assert!(!lock.try_lock_until(Threads::now_ns() + 1_000_000), "the lock is held");
        in_child(|| {
            let (taken, has_taken) = mpsc::channel();
            // In the parent another thread holds the lock; the child's copy is its own.
            unlock();
            thread::scope(|scope| {
                scope.spawn(move || {
                    lock.lock();
                    taken.send(()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                    unlock();
                });
                has_taken.recv().unwrap();
                waits();
            });
        });
    };
    thread::scope(|scope| {
        scope.spawn(waits);
        thread::sleep(Duration::from_millis(20));
        let gave_up = scope.spawn(gives_up).join();
        unlock();
        gave_up.unwrap();
    });
    waits();
}

#[test]
fn a_child_does_not_go_back_to_a_place_that_was_given_up() {
    fork_after_giving_up::<Queued<Threads>>();
    fork_after_giving_up::<Hybrid<Threads>>();
}

/// A lock in a mapping of its own, which is never unmapped.
fn mapped<L: ConstLock>(flags: i32) -> &'static L {
    let lock = pages::<L>(1, flags);
    // SAFETY: the mapping is large enough, aligned to a page, and stays.
    unsafe {
        lock.write(L::NEW);
        &*lock
    }
}

/// What a child does with the word of a lock that it must not mend: the word, and what it would be
/// if no thread waited.
type Child = fn(*mut u32, u32);

const LEAVES: Child = |_, _| in_child(|| {});

/// Forks while threads sleep that wait for a lock in memory that the child must not mend. After
/// that, the lock's word must still show that they wait, and they must get the lock.
fn fork_beside<L: ConstLock + 'static>(flags: i32, advice: Option<i32>, child: Child) -> Verdict {
    assert_eq!(size_of::<L>(), 4, "the memory is looked at as one word");
    let held: &'static L = mapped::<L>(flags);
    let word = std::ptr::from_ref(held).cast_mut().cast::<u32>();
    if let Some(advice) = advice {
        // SAFETY: the page belongs to the mapping; only what a child gets of it changes.
        assert_eq!(unsafe { libc::madvise(word.cast(), size_of::<L>(), advice) }, 0);
    }
    held.lock();
    // SAFETY: the mapping stays, and no other thread uses it yet.
    let unawaited = unsafe { word.read_volatile() };
    let (send, receive) = mpsc::channel();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let send = send.clone();
            thread::spawn(move || {
                send.send(thread_id()).unwrap();
                held.lock();
                // SAFETY: the line above took the lock.
                unsafe { held.unlock() };
            })
        })
        .collect();
    for thread in receive.iter().take(waiters.len()) {
        while !sleeps(thread) {
            thread::yield_now();
        }
    }
    child(word, unawaited);
    // SAFETY: as above; the other threads sleep, and this one holds the lock.
    if unsafe { word.read_volatile() } == unawaited {
        return Err("the child has written to the parent's lock".into());
    }
    // SAFETY: the lock was taken above.
    unsafe { held.unlock() };
    for waiter in waiters {
        waiter.join().unwrap();
    }
    if held.try_lock() { Ok(()) } else { Err("a lock that no thread uses is taken".into()) }
}

/// [`fork_beside`] with each kind of lock, under a watchdog.
fn fork_beside_each(flags: i32, advice: Option<i32>) {
    for check in [
        fork_beside::<Hybrid<Threads>>,
        fork_beside::<Queued<Threads>>,
        fork_beside::<Ticket<Threads>>,
        fork_beside::<TestAndSet<Threads>>,
    ] {
        watched(move |_| check(flags, advice, LEAVES)).unwrap();
    }
}

#[test]
fn a_child_leaves_locks_in_shared_memory_alone() {
    fork_beside_each(libc::MAP_SHARED, None);
}

#[test]
fn a_child_leaves_locks_alone_that_it_does_not_have() {
    fork_beside_each(libc::MAP_PRIVATE, Some(libc::MADV_DONTFORK));
}

/// The child can't open the list of its mappings.
#[test]
fn a_child_without_files_leaves_locks_in_shared_memory_alone() {
    if !is_alone("fork::a_child_without_files_leaves_locks_in_shared_memory_alone") {
        return;
    }
    let without_files: Child = |_, _| {
        let before = set_files(None);
        in_child(|| {});
        set_files(Some(before));
    };
    watched(move |_| fork_beside::<Queued<Threads>>(libc::MAP_SHARED, None, without_files))
        .unwrap();
}

/// But it still mends the locks that it has to itself.
#[test]
fn a_child_without_files_can_use_the_locks_that_it_holds() {
    if !is_alone("fork::a_child_without_files_can_use_the_locks_that_it_holds") {
        return;
    }
    set_files(None);
    fork_with_waiters::<Queued<Threads>>();
}

/// Lets this process have `most` open files, or no more of them. Returns how many it could have.
fn set_files(most: Option<libc::rlim_t>) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid to write to.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let before = std::mem::replace(&mut limit.rlim_cur, most.unwrap_or(0));
    // SAFETY: `limit` is valid to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    before
}

#[test]
fn a_child_that_mends_shared_memory_is_noticed() {
    let mends: Child = |word, unawaited| {
        // SAFETY: the mapping stays, and the threads of the parent sleep.
        in_child(|| unsafe { word.write_volatile(unawaited) });
    };
    let verdict = watched(move |_| fork_beside::<Queued<Threads>>(libc::MAP_SHARED, None, mends));
    assert!(verdict.is_err());
}
