//! The two claims of S3.
//!
//! First: an acquire suffices on the CAS that steals the lock (`queue.rs try_take`) and on the one
//! that takes it and clears the pending bit (`head.rs take`). The audit in [`crate::orderings`]
//! shows that nothing less does, and every model that the acquire does.
//!
//! Second: "the store to the successor's `locked` must be ordered before the read of its state even
//! when the CAS fails". Linux keeps the two facts in two words:
//!
//! ```text
//!    promoter (pv_kick_node)                waiter (pv_wait_node)
//!    [S] locked = 1                         [S] state = HALTED
//!        fence                                  fence
//!    [L] cmpxchg(state, HALTED, HASHED)     [L] locked
//! ```
//!
//! If both sides read the old values, the waiter halts although no CPU has entered it in the table,
//! so it halts for ever. A `cmpxchg` that fails is only a load, so its own ordering does not help.
//! Overlock keeps both facts in one word, and needs no fence: see `raw/queue/wait.rs`.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};

use crate::support::models::{Depth, Report, explore};
use crate::support::sites;

const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;
const FIRST: u32 = 3;

/// What stands between the promoter's store and its CAS.
#[derive(Clone, Copy)]
enum Between {
    Fence,
    Nothing,
}

/// Linux's two words, with a CAS of the given `order`.
fn two_words(between: Between, order: Ordering) -> Report {
    sites::reset(None);
    explore(None, Depth::Bounded, move || {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(RUNNING)));
        let waiter = {
            let words = Arc::clone(&words);
            loom::thread::spawn(move || {
                let (locked, state) = &*words;
                state.store(HALTED, Relaxed);
                fence(Ordering::SeqCst);
                locked.load(Relaxed) == 0
            })
        };
        let (locked, state) = &*words;
        locked.store(1, Ordering::Release);
        if matches!(between, Between::Fence) {
            fence(Ordering::SeqCst);
        }
        // A compare-exchange that finds another value is only a load.
        let hashed = state.load(Relaxed) == HALTED
            && state.compare_exchange(HALTED, HASHED, order, Relaxed).is_ok();
        let halts = waiter.join().expect("the waiter ends");
        assert!(!halts || hashed, "the waiter halts although it is not in the table");
    })
}

/// Overlock's one word, all orderings relaxed.
fn one_word() -> Report {
    sites::reset(None);
    explore(None, Depth::Bounded, || {
        let state = Arc::new(AtomicU32::new(RUNNING));
        let waiter = {
            let state = Arc::clone(&state);
            loom::thread::spawn(move || {
                state.load(Relaxed) == RUNNING
                    && state.compare_exchange(RUNNING, HALTED, Relaxed, Relaxed).is_ok()
            })
        };
        let mut seen = state.load(Relaxed);
        while let Err(now) = state.compare_exchange(seen, FIRST, Relaxed, Relaxed) {
            seen = now;
        }
        let halts = waiter.join().expect("the waiter ends");
        assert!(!halts || seen == HALTED, "the waiter halts although it is not in the table");
    })
}

#[test]
fn s3_two_words_pass_with_a_fence() {
    let report = two_words(Between::Fence, Relaxed);
    assert_eq!(report.failure, None);
    assert!(report.executions > 2, "both orders are explored");
}

#[test]
fn s3_two_words_fail_without_a_fence_whatever_the_cas_orders() {
    for order in [Relaxed, AcqRel, Ordering::SeqCst] {
        let failure = two_words(Between::Nothing, order).failure.expect("loom finds the race");
        assert!(failure.contains("not in the table"), "{order:?}: {failure}");
    }
}

#[test]
fn s3_one_word_passes_without_any_ordering() {
    let report = one_word();
    assert_eq!(report.failure, None);
    assert!(report.executions > 2, "both orders are explored");
}
