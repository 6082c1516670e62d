//! The locks of the crate without features, where no core has a number: two threads count under
//! each lock, a few times.
//!
//! Small enough for an interpreter that models weak memory: `cargo xtask weak` runs it under miri,
//! and [`threads`] with the feature of that name.

#![forbid(unsafe_code)]

use std::thread;

use overlock::platform::Native;
use overlock::{ConstLock, Hybrid, Mutex, Queued, TestAndSet, Ticket};

fn counts<L: ConstLock + 'static>() {
    const ROUNDS: u32 = 100;
    let count = Mutex::<u32, L>::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                match count.try_lock() {
                    Some(mut guard) => *guard += 1,
                    None => *count.lock() += 1,
                }
            }
        });
        for _ in 0..ROUNDS {
            *count.lock() += 1;
        }
    });
    assert_eq!(*count.lock(), 2 * ROUNDS);
}

#[test]
fn test_and_set() {
    counts::<TestAndSet<Native>>();
}

#[test]
fn ticket() {
    counts::<Ticket<Native>>();
}

#[test]
fn queued() {
    counts::<Queued<Native>>();
}

#[test]
fn hybrid() {
    counts::<Hybrid<Native>>();
}

/// Does the interpreter find undefined behaviour under the safe interface? Few threads and few
/// operations, but each kind of wait.
#[cfg(all(feature = "threads", feature = "lock_api"))]
mod threads {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use overlock::platform::Threads;
    use overlock::{Mutex, Queued, RawLock, ThreadCondvar, ThreadMutex, ThreadRwLock, Ticket};

    const THREADS: usize = 3;
    const TIMES: usize = 8;

    fn on_threads(body: impl Fn(usize) + Sync) {
        thread::scope(|scope| {
            for number in 0..THREADS {
                let body = &body;
                scope.spawn(move || body(number));
            }
        });
    }

    fn counts<L: RawLock + overlock::ConstLock + Sync>() {
        let lock = Mutex::<_, L>::new(Box::new(0));
        on_threads(|_| {
            for _ in 0..TIMES {
                let mut held = lock.lock();
                // The others queue and halt meanwhile.
                thread::sleep(Duration::from_micros(200));
                **held += 1;
            }
        });
        assert_eq!(**lock.lock(), THREADS * TIMES);
    }

    #[test]
    fn mutexes() {
        counts::<overlock::Hybrid<Threads>>();
        counts::<Queued<Threads>>();
        counts::<Ticket<Threads>>();
    }

    #[test]
    fn waits_that_are_given_up() {
        let lock = ThreadMutex::new(vec![1]);
        let held = lock.lock();
        on_threads(|_| assert!(lock.try_lock_for(Duration::from_millis(3)).is_none()));
        drop(held);
        on_threads(|_| lock.lock().push(2));
        assert_eq!(lock.lock().len(), 1 + THREADS);
    }

    #[test]
    fn readers_writers_and_upgrades() {
        let lock = ThreadRwLock::new(vec![0]);
        on_threads(|number| {
            for _ in 0..TIMES {
                assert!(!lock.read().is_empty());
                if number == 0 {
                    lock.write().push(1);
                }
            }
        });
        // A free lock is moved, and read where it lies then.
        let moved = Box::new(lock);
        assert_eq!(moved.read().len(), 1 + TIMES);
    }

    #[test]
    fn conditions() {
        let shared = Arc::new((ThreadMutex::new(0), ThreadCondvar::new()));
        let waits = shared.clone();
        let waiter = thread::spawn(move || {
            let (count, changed) = &*waits;
            let mut count = count.lock();
            while *count < TIMES {
                changed.wait(&mut count);
            }
            *count
        });
        for _ in 0..TIMES {
            *shared.0.lock() += 1;
            shared.1.notify_all();
        }
        assert_eq!(waiter.join().unwrap(), TIMES);
        let mut count = shared.0.lock();
        assert!(shared.1.wait_for(&mut count, Duration::from_millis(2)).timed_out());
    }
}
