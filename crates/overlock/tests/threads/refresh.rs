//! `Refresh`: the freshness that each call promises, and which calls return while a refresher is
//! stuck.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use crate::support::oracle::{sleeps, thread_id};
use overlock::Refresh;
use overlock::platform::Threads;

type Shared = Refresh<u64, Threads>;

/// A clock that ticks at each reading, so that a value shows when it was computed.
static TICKS: AtomicU64 = AtomicU64::new(1);

fn tick() -> u64 {
    TICKS.fetch_add(1, SeqCst)
}

fn hammer(check: impl Fn(&Shared, u64) + Sync) {
    let shared = Shared::zeroed();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let called = tick();
                    check(&shared, called);
                }
            });
        }
    });
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
    let shared = Refresh::<u128, Threads>::zeroed();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut before = 0;
                while !done.load(SeqCst) {
                    let value = shared.last();
                    let (high, low) = ((value >> 64) as u64, value as u64);
                    assert_eq!(high, low, "torn");
                    assert!(low >= before, "{low} after {before}");
                    before = low;
                }
            });
        }
        for i in 1..200_000_u128 {
            shared.join(|| i << 64 | i);
        }
        done.store(true, SeqCst);
    });
}

/// Losers share the winner's result instead of computing their own.
#[test]
fn callers_that_find_a_refresh_under_way_do_not_repeat_it() {
    let (shared, computed) = (Shared::zeroed(), AtomicU64::new(0));
    let [begun, finish] = [const { AtomicBool::new(false) }; 2];
    let wins = || {
        begun.store(true, SeqCst);
        while !finish.load(SeqCst) {
            thread::yield_now();
        }
        computed.fetch_add(1, SeqCst);
        77
    };
    let loses = || {
        computed.fetch_add(1, SeqCst);
        1
    };
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(shared.join(wins), 77));
        while !begun.load(SeqCst) {
            thread::yield_now();
        }
        let (send, receive) = mpsc::channel();
        for _ in 0..8 {
            let (send, shared) = (send.clone(), &shared);
            scope.spawn(move || {
                send.send(thread_id()).unwrap();
                assert_eq!(shared.join(loses), 77);
            });
        }
        for thread in receive.iter().take(8) {
            while !sleeps(thread) {
                thread::yield_now();
            }
        }
        // The refresher is away, as if its CPU were lost: a call of `last` still returns.
        assert_eq!(shared.last(), 0);
        finish.store(true, SeqCst);
    });
    assert_eq!(computed.load(SeqCst), 1);
}

#[test]
fn a_refresh_that_panics_leaves_the_value_and_lets_others_go_on() {
    let shared = Refresh::<u64, Threads>::with(5, || 0.into());
    let breaks = || shared.join(|| panic!("no clock"));
    thread::scope(|scope| scope.spawn(breaks).join().unwrap_err());
    assert_eq!(shared.last(), 5);
    assert_eq!(shared.join(|| 6), 6);
}
