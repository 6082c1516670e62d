// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks of the crate without features, where no core has a number: two threads count under
//! each lock, a few times.
//!
//! Small enough for an interpreter that models weak memory: `cargo xtask weak` runs it under miri.

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
