//! Do the types of this crate do what `spin` promises of them?

use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use overlock_spin as spin;
use spin::{
    Lazy, Mutex, MutexGuard, Once, RwLock, RwLockReadGuard, RwLockUpgradableGuard, RwLockWriteGuard,
};

// A program without the feature says what its CPUs are, as a kernel does.
#[cfg(not(feature = "threads"))]
spin::set_platform!(spin::platform::Native);

const THREADS: u32 = 4;
// Where a waiter only spins, a turn can take the time slices of others.
const ROUNDS: u32 = if cfg!(feature = "threads") { 2_000 } else { 64 };

/// Runs `work` on some threads that begin together.
fn together(work: impl Fn() + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                work();
            });
        }
    });
}

#[test]
fn a_mutex_excludes() {
    static SUM: Mutex<u32> = Mutex::new(0);
    together(|| {
        for round in 0..ROUNDS {
            let mut sum = SUM.lock();
            let before = *sum;
            if round % 64 == 0 {
                thread::yield_now();
            }
            *sum = before + 1;
        }
    });
    assert_eq!(*SUM.lock(), THREADS * ROUNDS);
    assert_eq!(spin::mutex::SpinMutex::new(3).into_inner(), 3);
}

#[test]
fn a_mutex_is_tried_and_leaked() {
    let mut mutex = Mutex::new(1);
    let guard = mutex.lock();
    assert!(mutex.try_lock().is_none() && mutex.is_locked());
    // Guards of `spin` can be sent to other CPUs.
    thread::scope(|scope| scope.spawn(move || drop(guard)).join()).unwrap();
    *MutexGuard::leak(mutex.try_lock().unwrap()) += 1;
    assert!(mutex.is_locked());
    // SAFETY: its guard was leaked.
    unsafe { mutex.force_unlock() };
    assert_eq!((*mutex.get_mut(), mutex.into_inner()), (2, 2));
}

#[test]
fn a_writer_excludes_readers() {
    static PAIR: RwLock<(u32, u32)> = RwLock::new((0, 0));
    together(|| {
        for round in 0..ROUNDS {
            if round % 4 == 0 {
                let mut pair = PAIR.write();
                pair.0 += 1;
                thread::yield_now();
                pair.1 += 1;
            } else {
                let pair = PAIR.read();
                assert_eq!(pair.0, pair.1);
            }
        }
    });
    assert_eq!(*PAIR.read(), (THREADS * ROUNDS / 4, THREADS * ROUNDS / 4));
}

#[test]
fn a_reader_reads_again_though_a_writer_waits() {
    let lock = RwLock::new(0);
    thread::scope(|scope| {
        let first = lock.read();
        let writer = scope.spawn(|| *lock.write() = 1);
        // Until the writer waits, which keeps out a reader that does not read already.
        for _ in 0..20 {
            thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(*lock.read(), 0);
            assert_eq!(lock.try_read().map(|guard| *guard), Some(0));
        }
        drop(first);
        writer.join().unwrap();
    });
    assert_eq!(*lock.read(), 1);
}

#[test]
fn guards_of_readers_and_writers_change() {
    let mut lock = RwLock::from(1);
    let upgradable: RwLockUpgradableGuard<'_, _> = lock.upgradeable_read();
    assert!(lock.try_upgradeable_read().is_none() && lock.try_write().is_none());
    let reader: RwLockReadGuard<'_, _> = lock.read();
    let upgradable = upgradable.try_upgrade().expect_err("another reads");
    drop(reader);
    let mut writer: RwLockWriteGuard<'_, _> = upgradable.try_upgrade().expect("no other reads");
    assert!(lock.try_read().is_none());
    *writer += 1;
    let upgradable = writer.downgrade_to_upgradeable();
    assert_eq!((*lock.read(), *upgradable), (2, 2));
    let reader = upgradable.upgrade().downgrade();
    assert!(lock.try_write().is_none());
    drop(reader);
    assert_eq!(*lock.upgradeable_read().downgrade(), 2);
    *RwLockWriteGuard::leak(lock.write()) += 1;
    assert!(lock.try_read().is_none());
    // SAFETY: the guard was leaked.
    unsafe { lock.force_write_unlock() };
    assert_eq!(*RwLockReadGuard::leak(lock.read()), 3);
    assert!(lock.try_write().is_none());
    // SAFETY: the guard was leaked.
    unsafe { lock.force_read_decrement() };
    assert_eq!(*lock.get_mut(), 3);
    assert_eq!(lock.into_inner(), 3);
}

#[test]
fn the_first_computes_and_the_others_wait() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let once = Once::new();
    assert_eq!((once.get(), once.poll(), once.is_completed()), (None, None, false));
    together(|| {
        let value = once.call_once(|| {
            thread::sleep(std::time::Duration::from_millis(20));
            RUNS.fetch_add(1, Relaxed) + 7
        });
        assert_eq!((*value, once.wait(), once.poll()), (7, &7, Some(&7)));
    });
    assert_eq!(RUNS.load(Relaxed), 1);
    assert_eq!(once.try_into_inner(), Some(7));
    assert_eq!(Once::initialized(5).get_mut(), Some(&mut 5));
}

#[test]
fn a_closure_that_fails_is_followed_by_another_and_one_that_panics_by_none() {
    let once = Once::new();
    assert_eq!(once.try_call_once(|| Err::<u32, _>("no")), Err("no"));
    assert_eq!(once.try_call_once(|| Ok::<_, &str>(1)), Ok(&1));
    let once = Once::<u32>::new();
    assert!(catch_unwind(|| once.call_once(|| panic!("on purpose"))).is_err());
    assert!(catch_unwind(|| *once.call_once(|| 1)).is_err());
    assert_eq!(once.get(), None);
}

#[test]
fn a_value_is_dropped_once() {
    struct Counted<'a>(&'a AtomicU32);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let drops = AtomicU32::new(0);
    drop(Once::<Counted<'_>>::new());
    drop(Once::initialized(Counted(&drops)));
    assert_eq!(drops.load(Relaxed), 1);
    drop(Once::initialized(Counted(&drops)).try_into_inner());
    assert_eq!(drops.load(Relaxed), 2);
}

#[test]
fn a_lazy_value_is_computed_when_it_is_used() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static SQUARE: Lazy<u32> = Lazy::new(|| RUNS.fetch_add(1, Relaxed) + 25);
    assert_eq!(RUNS.load(Relaxed), 0);
    together(|| assert_eq!(*SQUARE, 25));
    assert_eq!(RUNS.load(Relaxed), 1);
    assert_eq!(*Lazy::<u32>::default(), 0);
}
