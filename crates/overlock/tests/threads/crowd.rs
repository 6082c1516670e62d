//! More threads than a lock has tickets: there are 128 8-bit tickets.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use overlock::counters::Uncounted;
use overlock::platform::Threads;
use overlock::raw::Narrow;
use overlock::{ConstLock, Mutex, RawLock, Ticket};

const THREADS: usize = 300;

/// All threads wait for a lock that is held, and each takes it in turn.
fn crowd<L: ConstLock + RawLock + 'static>(rounds: usize) {
    let lock = Mutex::<usize, L>::new(0);
    let is_held = AtomicBool::new(true);
    let held = lock.lock();
    let all_ask = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                all_ask.wait();
                for _ in 0..rounds {
                    let mut sum = lock.lock();
                    assert!(!is_held.load(Relaxed), "the lock has two holders");
                    *sum += 1;
                }
            });
        }
        all_ask.wait();
        thread::sleep(std::time::Duration::from_millis(50));
        is_held.store(false, Relaxed);
        drop(held);
    });
    assert_eq!(*lock.lock(), THREADS * rounds);
}

#[test]
fn more_threads_than_narrow_tickets_wait_for_a_lock() {
    crowd::<Ticket<Threads, Uncounted, Narrow>>(20);
}
