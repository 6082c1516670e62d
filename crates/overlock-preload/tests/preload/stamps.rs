//! Are the threads that a stamp counts of one process, does a forked child remove the traces of its
//! parent's threads before it waits, and is a stamp that counts no thread zero? Interleavings with
//! up to two preemptions; and faulty twins are noticed.

use std::cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use crate::cell::Cell;

#[path = "../../src/stamp.rs"]
mod stamp;

use stamp::{Stamp, Stamped, Whose};

/// What a faulty twin does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Its accesses order nothing.
    Relaxed,
    /// Every process takes the memory for its own.
    Private,
    FirstClears,
}

thread_local! {
    /// loom's threads are all on this one.
    static FAULT: cell::Cell<Option<Fault>> = const { cell::Cell::new(None) };
}

fn has(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

struct Word(AtomicU32);

impl Cell<u32> for Word {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(if has(Fault::Relaxed) { Relaxed } else { order })
    }
    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, if has(Fault::Relaxed) { Relaxed } else { order });
    }
    fn compare_exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        let new = if has(Fault::FirstClears) && order == Release { 0 } else { new };
        let order = if has(Fault::Relaxed) { Relaxed } else { order };
        self.0.compare_exchange(current, new, order, Relaxed)
    }
}

/// The processes of the models: a parent, and its child.
fn process(index: usize) -> Whose {
    Whose::new(5, index as u32)
}

struct Lock {
    stamp: Stamp<Word>,
    is_private: bool,
    /// How many threads of each process are in the queue.
    queue: [AtomicU32; 2],
    /// Whether the parent's threads have left traces.
    traces: UnsafeCell<bool>,
}

// SAFETY: loom reports two threads that use the traces at once.
unsafe impl Sync for Lock {}
// SAFETY: likewise.
unsafe impl Send for Lock {}

impl Stamped for Lock {
    fn is_private(&self) -> bool {
        self.is_private || has(Fault::Private)
    }
    fn clean(&self) {
        // SAFETY: loom reports two threads that do.
        self.traces.with_mut(|traces| unsafe { *traces = false });
    }
    fn pause(&self) {
        thread::yield_now();
    }
}

impl Lock {
    fn expect_no_traces(&self) {
        // SAFETY: loom reports a thread that writes at the same time.
        let are_there = self.traces.with(|traces| unsafe { *traces });
        assert!(!are_there, "a child finds its parent's threads");
    }

    fn wait(&self, me: usize) {
        if self.stamp.enter(process(me), self) {
            self.expect_no_traces();
            self.queue[me].fetch_add(1, Relaxed);
            assert_eq!(self.queue[1 - me].load(Relaxed), 0, "a queue of two processes");
            self.queue[me].fetch_sub(1, Relaxed);
            self.stamp.leave(process(me));
        }
    }

    /// Uses the lock as a thread of that process that need not wait.
    fn use_free(&self, me: usize) {
        self.stamp.adopt(process(me), self);
        self.expect_no_traces();
    }
}

/// What a thread does, as one of which process.
type Verb = (fn(&Lock, usize), usize);

/// Lets threads do that with a lock that so many threads of the parent wait for.
fn explore(fault: Option<Fault>, is_private: bool, waiting: u32, verbs: &'static [Verb]) {
    FAULT.set(fault);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let before = if waiting == 0 { 0 } else { process(0).0 + waiting };
        let lock = Arc::new(Lock {
            stamp: Stamp(Word(AtomicU32::new(before))),
            is_private,
            queue: [AtomicU32::new(0), AtomicU32::new(0)],
            traces: UnsafeCell::new(waiting > 0),
        });
        let threads: Vec<_> = verbs
            .iter()
            .map(|&(verb, me)| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || verb(&lock, me))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        let left = lock.stamp.0.0.load(Relaxed);
        assert!(left == 0 || !is_private && left == 1 << 31, "the stamp is {left:#x}");
    });
}

const ONE_PROCESS: &[Verb] = &[(Lock::wait, 0), (Lock::wait, 0)];
const TWO_PROCESSES: &[Verb] = &[(Lock::wait, 0), (Lock::wait, 0), (Lock::wait, 1)];
const A_CHILD: &[Verb] = &[(Lock::wait, 1), (Lock::use_free, 1)];

#[test]
fn a_stamp_that_counts_no_thread_is_zero() {
    explore(None, true, 0, ONE_PROCESS);
}

#[test]
fn no_queue_has_threads_of_two_processes() {
    explore(None, false, 0, TWO_PROCESSES);
}

#[test]
fn a_child_removes_the_traces_of_its_parents_threads() {
    explore(None, true, 2, A_CHILD);
}

#[test]
#[should_panic(expected = "a queue of two processes")]
fn a_stamp_that_the_first_clears_is_noticed() {
    explore(Some(Fault::FirstClears), false, 0, TWO_PROCESSES);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_process_that_takes_shared_memory_for_its_own_is_noticed() {
    explore(Some(Fault::Private), false, 0, TWO_PROCESSES);
}

#[test]
#[should_panic(expected = "a queue of two processes")]
fn a_stamp_that_does_not_order_two_processes_is_noticed() {
    explore(Some(Fault::Relaxed), false, 0, TWO_PROCESSES);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_stamp_that_does_not_order_a_childs_threads_is_noticed() {
    explore(Some(Fault::Relaxed), true, 2, A_CHILD);
}
