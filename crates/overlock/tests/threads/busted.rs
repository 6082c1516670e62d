//! The oracles of `conformance.rs` notice faults: each broken subject is caught by the oracle meant
//! for it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::oracle::{self, Subject};
use overlock::platform::{Platform, Threads};

/// Admits every thread.
struct NoOp;

impl Subject for NoOp {
    fn new() -> Self {
        Self
    }
    fn lock(&self) {}
    fn try_lock(&self) -> bool {
        true
    }
    fn unlock(&self) {}
}

#[test]
fn a_lock_that_lets_everybody_in_loses_updates() {
    let verdict = oracle::excludes(oracle::new::<NoOp>, 4, 1_000_000, 3);
    assert!(verdict.unwrap_err().starts_with("lost "));
    assert_eq!(oracle::tries_truly(oracle::new::<NoOp>).unwrap_err(), "a held lock could be taken");
}

/// A futex mutex whose release wakes no waiter.
struct LostWakeUp(AtomicU32);

impl Subject for LostWakeUp {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    fn lock(&self) {
        while self.0.swap(1, SeqCst) != 0 {
            Threads::wait(&self.0, 1, None);
        }
    }
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, 1, SeqCst, Relaxed).is_ok()
    }
    fn unlock(&self) {
        self.0.store(0, SeqCst);
    }
}

#[test]
fn a_lost_wake_up_is_no_progress() {
    let verdict = oracle::watched_for(Duration::from_secs(1), |_| {
        oracle::loses_no_waiter(oracle::new::<LostWakeUp>, 8, 20, Duration::from_millis(2))
    });
    assert_eq!(verdict.unwrap_err(), "no progress: a waiter was lost");
}

#[test]
fn progress_is_no_hang_however_slow() {
    let verdict = oracle::watched_for(Duration::from_secs(2), |pulse| {
        for _ in 0..12 {
            thread::sleep(Duration::from_millis(200));
            pulse.beat();
        }
        Ok(())
    });
    assert_eq!(verdict, Ok(()));
}

/// Accesses its word again after the release, to clear a flag, as S1's first ticket lock did.
struct TouchesAfterRelease(AtomicU32);

impl Subject for TouchesAfterRelease {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    fn lock(&self) {
        while !self.try_lock() {
            thread::yield_now();
        }
    }
    fn try_lock(&self) -> bool {
        self.0.fetch_or(1, SeqCst) & 1 == 0
    }
    fn unlock(&self) {
        self.0.fetch_and(!1, SeqCst);
        thread::yield_now();
        self.0.fetch_and(!2, SeqCst);
    }
}

#[test]
fn an_access_after_the_last_release_is_seen() {
    let verdict = oracle::leaves_memory_alone::<TouchesAfterRelease>(100_000);
    assert!(verdict.unwrap_err().contains("after its last release"));
}

/// A "FIFO" lock that serves the youngest waiter first.
struct Unfair {
    state: std::sync::Mutex<(bool, Vec<thread::Thread>)>,
}

impl Subject for Unfair {
    fn new() -> Self {
        Self { state: std::sync::Mutex::new((false, Vec::new())) }
    }
    fn lock(&self) {
        let mut queued = false;
        loop {
            {
                let mut state = self.state.lock().unwrap();
                let last_is_me = state.1.last().is_none_or(|t| t.id() == thread::current().id());
                if !state.0 && last_is_me {
                    state.0 = true;
                    if queued {
                        state.1.pop();
                    }
                    return;
                }
                if !queued {
                    state.1.push(thread::current());
                    queued = true;
                }
            }
            thread::park();
        }
    }
    fn try_lock(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().unwrap().0, true)
    }
    fn unlock(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = false;
        if let Some(thread) = state.1.last() {
            thread.unpark();
        }
    }
}

#[test]
fn an_unfair_queue_is_out_of_order() {
    for verdict in [
        oracle::serves_in_order(oracle::new::<Unfair>, 8),
        oracle::mostly_serves_in_order(oracle::new::<Unfair>, 8),
    ] {
        assert!(verdict.unwrap_err().starts_with("served in the order"));
    }
}
