//! `Refresh`: the freshness that each call promises, and which calls return while a refresher is
//! stuck.

#![cfg(feature = "threads")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use overlock::Refresh;
use overlock::platform::Threads;

type Shared = Refresh<u64, Threads>;

/// A clock that ticks at each reading, so that a value shows when it was computed.
static TICKS: AtomicU64 = AtomicU64::new(1);

fn tick() -> u64 {
    TICKS.fetch_add(1, SeqCst)
}

fn hammer(check: impl Fn(&Shared, u64) + Send + Sync + 'static) {
    let shared = Arc::new(Shared::zeroed());
    let check = Arc::new(check);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (shared, check) = (Arc::clone(&shared), Arc::clone(&check));
            thread::spawn(move || {
                for _ in 0..5_000 {
                    let called = tick();
                    check(&shared, called);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn fresh_is_computed_after_the_call() {
    hammer(|shared, called| {
        let value = shared.fresh(tick);
        assert!(value > called, "computed at {value}, called at {called}");
    });
}

/// The refresh that a call joins may have read its clock before the call, but had not ended. So its
/// value is newer than any that had been returned before the call.
#[test]
fn join_is_not_older_than_what_was_known_before_the_call() {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    hammer(|shared, _| {
        let known = KNOWN.load(SeqCst);
        let value = shared.join(tick);
        assert!(value >= known, "returned {value} after {known} was known");
        KNOWN.fetch_max(value, SeqCst);
    });
}

#[test]
fn last_never_goes_backwards_and_is_never_torn() {
    let shared = Arc::new(Refresh::<u128, Threads>::zeroed());
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
            thread::spawn(move || {
                let mut before = 0;
                while !done.load(SeqCst) {
                    let value = shared.last();
                    let (high, low) = ((value >> 64) as u64, value as u64);
                    assert_eq!(high, low, "torn");
                    assert!(low >= before, "{low} after {before}");
                    before = low;
                }
            })
        })
        .collect();
    for i in 1..200_000_u128 {
        shared.join(|| i << 64 | i);
    }
    done.store(true, SeqCst);
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Losers share the winner's result instead of computing their own.
#[test]
fn callers_that_find_a_refresh_under_way_do_not_repeat_it() {
    let shared = Arc::new(Shared::zeroed());
    let computed = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicBool::new(false));
    let finish = Arc::new(AtomicBool::new(false));
    let winner = {
        let (shared, computed) = (Arc::clone(&shared), Arc::clone(&computed));
        let (begun, finish) = (Arc::clone(&begun), Arc::clone(&finish));
        thread::spawn(move || {
            shared.join(|| {
                begun.store(true, SeqCst);
                while !finish.load(SeqCst) {
                    thread::yield_now();
                }
                computed.fetch_add(1, SeqCst);
                77
            })
        })
    };
    while !begun.load(SeqCst) {
        thread::yield_now();
    }
    let losers: Vec<_> = (0..8)
        .map(|_| {
            let (shared, computed) = (Arc::clone(&shared), Arc::clone(&computed));
            thread::spawn(move || {
                shared.join(|| {
                    computed.fetch_add(1, SeqCst);
                    1
                })
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(30));
    // The refresher is away, as if its CPU were lost: a call of `last` still returns.
    assert_eq!(shared.last(), 0);
    finish.store(true, SeqCst);
    assert_eq!(winner.join().unwrap(), 77);
    for loser in losers {
        assert_eq!(loser.join().unwrap(), 77);
    }
    assert_eq!(computed.load(SeqCst), 1);
}

#[test]
fn a_refresh_that_panics_leaves_the_value_and_lets_others_go_on() {
    let shared = Arc::new(Refresh::<u64, Threads>::with(5, || 0.into()));
    let broken = Arc::clone(&shared);
    thread::spawn(move || broken.join(|| panic!("no clock"))).join().unwrap_err();
    assert_eq!(shared.last(), 5);
    assert_eq!(shared.join(|| 6), 6);
}
