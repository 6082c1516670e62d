//! Is a read-write lock exact: movable whenever it is free, right about who holds it, and open to
//! whoever can run?

use std::mem;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::oracle::elsewhere;
use overlock::platform::Threads;
use overlock::{RawLock as _, RawRwLock, RwLockUpgradableGuard, ThreadRwLock};

/// Long enough for what takes no time, and short enough to wait for what does not come.
const SOON: Duration = Duration::from_millis(50);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_free_lock_says_so_wherever_it_lies() {
    let mut lock = ThreadRwLock::new(0);
    for _ in 0..100 {
        drop(lock.read());
        drop(lock.upgradable_read());
        drop(lock.write());
        assert!(!lock.is_locked());
        let moved = Box::new(lock);
        assert!(elsewhere(|| moved.try_write().is_some()));
        lock = *moved;
    }
}

/// One thread releases what another has taken, and the lock is moved between.
#[test]
fn a_read_lock_belongs_to_no_thread() {
    let lock = RawRwLock::<Threads>::new();
    for _ in 0..3 {
        lock.lock_shared();
        // SAFETY: taken above.
        unsafe { lock.unlock_shared() };
    }
    elsewhere(|| lock.lock_shared());
    // SAFETY: the other thread has taken it, and is gone.
    unsafe { lock.unlock_shared() };
    let lock = Box::new(lock);
    lock.lock_shared();
    assert!(!elsewhere(|| lock.try_lock()), "a writer beside a reader");
    // SAFETY: taken above.
    unsafe { lock.unlock_shared() };
    assert!(elsewhere(|| lock.try_lock()));
}

#[test]
fn a_forgotten_guard_keeps_its_own_lock_and_no_other() {
    let mut slot = ThreadRwLock::new(1);
    for _ in 0..3 {
        drop(slot.read());
    }
    mem::forget(slot.read());
    let other = ThreadRwLock::new(2);
    for _ in 0..3 {
        drop(other.read());
    }
    let first = mem::replace(&mut slot, other);
    assert!(elsewhere(|| slot.try_write().is_some()), "no guard of the second was forgotten");
    assert!(elsewhere(|| first.try_write().is_none()), "one of the first was");
}

#[test]
fn a_reader_can_always_read_once_more() {
    let (lock, is_over) = (ThreadRwLock::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                drop(lock.try_write_for(Duration::from_micros(20)));
            }
        });
        for _ in 0..2_000 {
            let guard = lock.read();
            assert!((0..100).all(|_| lock.try_read_recursive().is_some()));
            drop(guard);
        }
        is_over.store(true, SeqCst);
    });
}

/// Neither a writer that waits for the upgradable reader, nor one that wants to be the next.
#[test]
fn no_waiter_keeps_readers_from_an_upgradable_one() {
    for writes in [false, true] {
        let lock = ThreadRwLock::new(0);
        let upgradable = lock.upgradable_read();
        let comes = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                comes.wait();
                if writes {
                    drop(lock.write());
                } else {
                    drop(lock.upgradable_read());
                }
            });
            comes.wait();
            thread::sleep(SOON);
            assert!(elsewhere(|| lock.try_read_for(LONG).is_some()), "writes: {writes}");
            assert!(lock.try_read().is_some() && lock.try_read_recursive().is_some());
            drop(upgradable);
        });
    }
}

/// Workers ask a reader something while they may upgrade, and then do.
#[test]
fn upgradable_readers_can_wait_for_readers() {
    let (lock, rounds) = (ThreadRwLock::new(0_u32), 200);
    thread::scope(|scope| {
        let (ask, asked) = mpsc::channel::<mpsc::Sender<u32>>();
        scope.spawn(|| asked.into_iter().for_each(|answer| answer.send(*lock.read()).unwrap()));
        for ask in [ask.clone(), ask] {
            let lock = &lock;
            scope.spawn(move || {
                for _ in 0..rounds {
                    let guard = lock.upgradable_read();
                    let (answer, answered) = mpsc::channel();
                    ask.send(answer).unwrap();
                    assert_eq!(answered.recv_timeout(LONG), Ok(*guard));
                    *RwLockUpgradableGuard::upgrade(guard) += 1;
                }
            });
        }
    });
    assert_eq!(*lock.read(), 2 * rounds);
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let lock = ThreadRwLock::new(0);
    let guard = lock.read();
    thread::scope(|scope| {
        let writer = scope.spawn(|| lock.try_write_for(4 * SOON).is_none());
        // Until the writer bars readers.
        while elsewhere(|| lock.try_read().is_some()) {
            thread::yield_now();
        }
        assert!(elsewhere(|| lock.try_read_for(LONG).is_some()));
        assert!(writer.join().unwrap());
    });
    drop(guard);
    assert!(!lock.is_locked() && lock.try_write().is_some());
}

#[test]
fn a_lock_is_read_more_often_than_16_bits_count() {
    let lock = ThreadRwLock::new(0);
    for _ in 0..200_000 {
        mem::forget(lock.try_read().expect("no writer is about"));
    }
    assert!(elsewhere(|| lock.try_write().is_none()));
    for _ in 0..200_000 {
        // SAFETY: a guard was forgotten for each.
        unsafe { lock.force_unlock_read() };
    }
    assert!(lock.try_write().is_some());
}

/// The word of a lock that so many read, made by hand: to take it so often takes long.
fn read_by_most() -> RawRwLock<Threads> {
    let held = 2 * RawRwLock::<Threads>::READERS_MAX;
    // SAFETY: a lock is one word, whose readers count from bit 1 on. Each of these is released, or
    // the lock is not used again.
    unsafe { RawRwLock::with(AtomicU32::new(held)) }
}

#[test]
fn one_reader_too_many_is_told_so() {
    const { assert!(RawRwLock::<Threads>::READERS_MAX + 3 == 1 << 28, "about as many as libc's") };
    let lock = read_by_most();
    assert!(lock.is_full() && !lock.try_lock_shared() && !lock.try_lock_shared_recursive());
    assert!(!lock.try_lock_shared_until(u64::MAX) && !lock.try_lock_upgradable());
    let panics = thread::scope(|scope| scope.spawn(|| lock.lock_shared()).join().unwrap_err());
    assert_eq!(panics.downcast_ref(), Some(&"too many readers of a read-write lock"));
    // SAFETY: see `read_by_most`.
    unsafe { lock.unlock_shared() };
    assert!(lock.try_lock_shared() && lock.is_full());
}
