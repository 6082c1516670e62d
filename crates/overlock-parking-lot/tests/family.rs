//! Do the types of this crate do what `parking_lot` promises, beyond what `differential` asks?

use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use overlock_parking_lot as parking_lot;
use parking_lot::{
    Condvar, FairMutex, MappedMutexGuard, Mutex, MutexGuard, Once, OnceState, RwLock,
};

const SOON: Duration = Duration::from_millis(20);

#[test]
fn guards_are_mapped_unlocked_and_bumped() {
    let pair = Mutex::new((1, 2));
    let mut second = MutexGuard::map(pair.lock(), |pair| &mut pair.1);
    *second += 1;
    assert!(pair.is_locked());
    MappedMutexGuard::unlock_fair(second);

    let mut guard = pair.lock();
    MutexGuard::unlocked(&mut guard, || assert_eq!(*pair.lock(), (1, 3)));
    MutexGuard::bump(&mut guard);
    assert_eq!(*guard, (1, 3));
    assert!(pair.is_locked());
    drop(guard);
    assert!(!pair.is_locked());
}

/// Whether a thread that releases a lock and takes it again at once finds that the waiter has had
/// it in between.
macro_rules! is_next {
    ($lock:ident) => {{
        let (lock, comes) = ($lock::new(false), Barrier::new(2));
        thread::scope(|scope| {
            let guard = lock.lock();
            scope.spawn(|| {
                comes.wait();
                *lock.lock() = true;
            });
            comes.wait();
            // By then it waits, unless the machine is very busy.
            thread::sleep(SOON);
            drop(guard);
            *lock.lock()
        })
    }};
}

#[test]
fn a_fair_mutex_lets_the_waiter_have_the_lock_next() {
    let (mut fair, mut unfair) = (0, 0);
    for _ in 0..20 {
        fair += usize::from(is_next!(FairMutex));
        unfair += usize::from(is_next!(Mutex));
    }
    if unfair > 10 {
        // On a very busy machine the waiter runs first after most releases of any kind.
        let skipped = format!("skipped: {unfair} of 20 waiters were next after a plain release\n");
        return std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
    }
    assert!(fair > 10, "only {fair} of 20 waiters were next, and {unfair} of a mutex");
}

#[test]
fn instants_and_durations_are_deadlines() {
    let (mutex, rwlock) = (Mutex::new(()), RwLock::new(()));
    let (held, written) = (mutex.lock(), rwlock.write());
    let start = Instant::now();
    assert!(mutex.try_lock_for(SOON).is_none());
    assert!(start.elapsed() >= SOON);
    let deadline = Instant::now() + SOON;
    assert!(mutex.try_lock_until(deadline).is_none());
    assert!(Instant::now() >= deadline);
    for failed in [
        rwlock.try_read_for(SOON).is_none(),
        rwlock.try_write_until(Instant::now() + SOON).is_none(),
        rwlock.try_upgradable_read_for(SOON).is_none(),
        rwlock.try_read_recursive_until(Instant::now() + SOON).is_none(),
    ] {
        assert!(failed);
    }
    drop((held, written));
    assert!(mutex.try_lock_for(Duration::MAX).is_some());
    // A deadline that has passed still leaves one try.
    assert!(mutex.try_lock_until(start).is_some());
    assert!(rwlock.try_write_for(Duration::MAX).is_some());
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let mut guard = mutex.lock();
    let deadline = Instant::now() + SOON;
    assert!(condvar.wait_until(&mut guard, deadline).timed_out());
    assert!(Instant::now() >= deadline);
    assert!(condvar.wait_while_for(&mut guard, |_| true, SOON).timed_out());
    assert!(!condvar.wait_while_until(&mut guard, |_| false, deadline).timed_out());
}

#[test]
fn a_closure_is_run_once() {
    let (once, runs, barrier) = (Once::new(), AtomicU32::new(0), Barrier::new(4));
    assert_eq!(once.state(), OnceState::New);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                once.call_once(|| {
                    assert_eq!(once.state(), OnceState::InProgress);
                    thread::sleep(SOON);
                    runs.fetch_add(1, Relaxed);
                });
                assert_eq!((once.state(), runs.load(Relaxed)), (OnceState::Done, 1));
            });
        }
    });
}

/// Without `AssertUnwindSafe`, which users of `parking_lot` need not write.
#[test]
fn a_panic_of_a_closure_is_caught() {
    static ONCE: Once = Once::new();
    assert!(catch_unwind(|| ONCE.call_once(|| panic!("on purpose"))).is_err());
    assert!(catch_unwind(|| ONCE.call_once(|| ())).is_err() && ONCE.state().poisoned());
    assert!(catch_unwind(|| ONCE.call_once_force(|state| assert!(state.poisoned()))).is_ok());
    assert!(ONCE.state().done());
    static CONDVAR: Condvar = Condvar::new();
    assert!(catch_unwind(|| CONDVAR.notify_all()).is_ok());
}

#[cfg(feature = "arc_lock")]
#[test]
fn owned_guards_keep_their_lock_alive() {
    let guard = std::sync::Arc::new(Mutex::new(1)).lock_arc();
    let read = std::sync::Arc::new(RwLock::new(2)).read_arc();
    assert_eq!(*guard + *read, 3);
}
