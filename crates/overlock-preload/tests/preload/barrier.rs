//! Do the rounds of a barrier end for all of their threads, and does nothing touch it after its
//! destruction? Interleavings of loom, with up to three preemptions; and each ordering is needed.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex, atomic};
use loom::thread::{self, JoinHandle};

#[path = "../../src/barrier/rounds.rs"]
mod rounds;

use rounds::Rounds;

/// In place of the library's.
mod ground {
    pub(super) use super::{AtomicU32, AtomicU64, pause, sleep, wake_all, yield_once};
}

/// Accesses that a faulty twin makes with less than they need, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ArriveWithoutAcquire,
    ArriveWithoutRelease,
    Look,
    Leave,
    Left,
    /// The bit is in a word of its own, and the last to arrive takes it after the round has ended.
    Beside,
    /// Sleepers are not announced.
    Silent,
    /// `destroy` does not wait.
    Hasty,
}

thread_local! {
    /// loom's threads are all on this one.
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

fn has(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// Returns `order`, or `weak` in the twin.
fn unless(fault: Fault, weak: Ordering, order: Ordering) -> Ordering {
    if has(fault) { weak } else { order }
}

/// The memory of a word: a race with its end is one of accesses to this.
struct Memory(UnsafeCell<()>);

// SAFETY: loom reports races, and a unit has none.
unsafe impl Sync for Memory {}
// SAFETY: likewise.
unsafe impl Send for Memory {}

impl Memory {
    fn access(&self) {
        self.0.with(|_| ());
    }
    fn end(&self) {
        self.0.with_mut(|_| ());
    }
}

struct AtomicU64(atomic::AtomicU64, Memory, atomic::AtomicU64);

impl AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.1.access();
        let order = if order == Acquire { unless(Fault::Look, Relaxed, order) } else { order };
        self.0.load(order)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        order: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.1.access();
        if order == Relaxed {
            if has(Fault::Beside) {
                self.2.store(1 << 31, Release);
            }
            let is_set = has(Fault::Silent) || has(Fault::Beside);
            return self.0.compare_exchange(
                current,
                if is_set { current } else { new },
                order,
                failure,
            );
        }
        let order = unless(Fault::ArriveWithoutAcquire, Release, order);
        let order = unless(Fault::ArriveWithoutRelease, Acquire, order);
        let before = self.0.compare_exchange(current, new, order, failure)?;
        let ends = has(Fault::Beside) && new >> 32 != current >> 32;
        Ok(if ends { before | self.2.swap(0, AcqRel) } else { before })
    }
}

struct AtomicU32(atomic::AtomicU32, Memory);

impl AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.1.access();
        let seen = self.0.load(unless(Fault::Left, Relaxed, order));
        if has(Fault::Hasty) { 0 } else { seen }
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.1.access();
        self.0.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.1.access();
        self.0.fetch_sub(value, unless(Fault::Leave, Relaxed, order))
    }
}

loom::lazy_static! {
    /// The kernel's list of sleepers.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

fn sleep(state: &AtomicU64, round: u32) {
    state.1.access();
    let list = SLEEPERS.0.lock().expect("no thread panics");
    if (state.0.load(Relaxed) >> 32) as u32 == round {
        drop(SLEEPERS.1.wait(list));
    }
}

fn wake_all(state: &AtomicU64) {
    state.1.access();
    let _list = SLEEPERS.0.lock().expect("no thread panics");
    SLEEPERS.1.notify_all();
}

fn yield_once() -> bool {
    false
}

fn pause() {
    thread::yield_now();
}

struct Barrier {
    state: AtomicU64,
    inside: AtomicU32,
    /// What threads write before each of their waits.
    written: Vec<Memory>,
}

const COUNT: u32 = 2;

impl Barrier {
    fn new(writes: usize) -> Arc<Self> {
        let memory = || Memory(UnsafeCell::new(()));
        Arc::new(Self {
            state: AtomicU64(atomic::AtomicU64::new(0), memory(), atomic::AtomicU64::new(0)),
            inside: AtomicU32(atomic::AtomicU32::new(0), memory()),
            written: (0..writes).map(|_| memory()).collect(),
        })
    }

    fn rounds(&self) -> Rounds<'_> {
        Rounds { state: &self.state, inside: &self.inside, count: COUNT }
    }

    /// Writes one place, waits, and reads others, which the threads of the round have written.
    fn meet(&self, write: usize, reads: &[usize]) -> u32 {
        self.written[write].end();
        let is_last = self.rounds().wait(|| {});
        for &read in reads {
            self.written[read].access();
        }
        u32::from(is_last)
    }

    /// Destroys the barrier and frees its memory at once.
    fn destroy(&self) {
        self.rounds().destroy();
        self.state.1.end();
        self.inside.1.end();
    }
}

fn explore(preemptions: usize, fault: Option<Fault>, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        FAULT.set(fault);
        model();
    });
}

fn sum(threads: impl IntoIterator<Item = JoinHandle<u32>>) -> u32 {
    threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
}

/// Two threads, two rounds.
fn again() {
    let barrier = Barrier::new(4);
    let other = Arc::clone(&barrier);
    let thread = thread::spawn(move || other.meet(0, &[1]) + other.meet(2, &[3]));
    let lasts = barrier.meet(1, &[0]) + barrier.meet(3, &[2]);
    barrier.destroy();
    assert_eq!(lasts + sum([thread]), 2, "last threads of two rounds");
}

/// A round of three threads' first two, whose other thread is late, and one of the others.
fn late() {
    let barrier = Barrier::new(4);
    let others = [Arc::clone(&barrier), Arc::clone(&barrier)];
    let [first, second] = others;
    let first = thread::spawn(move || first.meet(0, &[1]));
    let mut lasts = barrier.meet(1, &[0]);
    let second = thread::spawn(move || second.meet(2, &[3, 0, 1]));
    lasts += barrier.meet(3, &[2]);
    barrier.destroy();
    assert_eq!(lasts + sum([first, second]), 2, "last threads of two rounds");
}

/// Four threads, of which any two make a round.
fn crowd() {
    let barrier = Barrier::new(4);
    let threads: Vec<_> = (1..4)
        .map(|me| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || barrier.meet(me, &[]))
        })
        .collect();
    let lasts = barrier.meet(0, &[]) + sum(threads);
    barrier.destroy();
    assert_eq!(lasts, 2, "last threads of two rounds");
}

#[test]
fn two_threads_meet_again() {
    explore(3, None, again);
}

#[test]
fn a_thread_is_late_while_others_meet() {
    explore(3, None, late);
}

#[test]
fn more_threads_than_a_round_has() {
    explore(1, None, crowd);
}

#[test]
fn every_fault_is_noticed() {
    use Fault::*;
    for fault in
        [ArriveWithoutAcquire, ArriveWithoutRelease, Look, Leave, Left, Beside, Silent, Hasty]
    {
        let notices = std::panic::catch_unwind(|| explore(3, Some(fault), again)).is_err();
        assert!(notices, "{fault:?}");
    }
}
