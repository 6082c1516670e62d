// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faulty locks, each with one fault, to show that the models find it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use overlock::RawLock;
use overlock::atomic::Atomic;
use overlock::platform::Platform;

use crate::support::cells::{Life, Part, Word};
use crate::support::models::{
    Depth, Plan, Report, hybrid, lock, queued, sections, unwatched, wide,
};
use crate::support::platform::{Barrier, ByAddress, Cheap, Halting, World};
use crate::support::sites;
use crate::support::unsure::twice;

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;

/// Two cells, which each lock uses in its own way.
struct Cells {
    word: Word,
    other: Word,
}

impl Cells {
    fn new(life: &'static Life) -> Self {
        let cell = || Word::new(0, Part::Lock(life));
        Self { word: cell(), other: cell() }
    }

    fn try_take(&self) -> bool {
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
    }
}

/// Excludes no CPU.
struct NoOp;

/// Announces that it halts, and halts, without checking the lock once more.
struct Forgetful(Cells);

/// Releases the lock, and then reads in its word whether a CPU waits.
struct Lingering(Cells);

/// A ticket lock whose last waiter clears the flag and does not check whether another waiter has
/// come meanwhile.
struct Careless(Cells);

macro_rules! raw_lock {
    ($lock:ident, |$self:ident| $take:block, $release:block) => {
        // SAFETY: none: the lock is faulty, and used only in models.
        unsafe impl RawLock for $lock {
            fn lock(&$self) $take

            fn try_lock(&self) -> bool {
                unreachable!("no model of a busted lock tries")
            }

            unsafe fn unlock(&$self) $release

            fn is_locked(&self) -> bool {
                false
            }
        }
    };
}

raw_lock!(NoOp, |self| {}, {});

raw_lock!(
    Forgetful,
    |self| {
        while !self.0.try_take() {
            self.0.other.store(1, Relaxed);
            ByAddress::wait(&self.0.other, 1, None);
        }
    },
    {
        let halted = &raw const self.0.other;
        let waits = self.0.other.swap(0, Relaxed) == 1;
        self.0.word.store(0, Release);
        if waits {
            ByAddress::kick_any(halted);
        }
    }
);

raw_lock!(
    Lingering,
    |self| {
        while !self.0.try_take() {
            let seen = self.0.word.fetch_or(WAITERS, Relaxed);
            if seen & LOCKED == 0 {
                self.0.word.fetch_and(!WAITERS, Relaxed);
            } else {
                ByAddress::wait(&self.0.word, LOCKED | WAITERS, None);
            }
        }
    },
    {
        self.0.word.fetch_and(!LOCKED, Release);
        if self.0.word.load(Relaxed) & WAITERS != 0 {
            self.0.word.fetch_and(!WAITERS, Relaxed);
            ByAddress::kick_any(&raw const self.0.word);
        }
    }
);

raw_lock!(
    Careless,
    |self| {
        let (head, tail) = (&self.0.word, &self.0.other);
        let ticket = tail.fetch_add(2, Relaxed);
        if head.load(Acquire) & !1 == ticket {
            return;
        }
        loop {
            let seen = head.fetch_or(1, AcqRel);
            if seen & !1 == ticket {
                break;
            }
            ByAddress::wait(head, seen | 1, None);
        }
        if tail.load(Relaxed) == ticket + 2 {
            head.fetch_and(!1, Acquire);
        }
    },
    {
        if self.0.word.fetch_add(2, Release) & 1 != 0 {
            ByAddress::kick_any(&raw const self.0.word);
        }
    }
);

/// A lock on a platform whose `membarrier` does nothing.
fn unfenced<L: RawLock + 'static>(make: fn(&'static Life) -> L) -> String {
    let world = World { barrier: Barrier::Pretended, ..World::PLAIN };
    let plan = Plan { preemptions: None, world, ..Plan::PLAIN };
    sites::reset(None);
    let report: Report = sections::<L>(plan, Depth::Bounded, make, lock, unwatched);
    report.failure.expect("the model finds that a release misses a waiter")
}

fn explore<L: RawLock + 'static>(make: fn(&'static Life) -> L) -> String {
    let plan = Plan {
        sections: &[2, 2],
        preemptions: Some(3),
        world: World { stale_failures: true, ..World::PLAIN },
        ..Plan::PLAIN
    };
    sites::reset(None);
    let report: Report = sections::<L>(plan, Depth::Bounded, make, lock, unwatched);
    report.failure.expect("the model finds what is wrong with the lock")
}

#[test]
fn a_lock_that_excludes_nobody_is_found() {
    let failure = explore(|_| NoOp);
    assert!(failure.contains("Concurrent write accesses"), "{failure}");
}

#[test]
fn a_lost_wake_up_is_found() {
    let failure = explore(|life| Forgetful(Cells::new(life)));
    assert!(failure.contains("deadlock"), "{failure}");
}

#[test]
fn an_access_after_the_release_is_found() {
    let failure = explore(|life| Lingering(Cells::new(life)));
    assert!(failure.contains("Concurrent read and write accesses"), "{failure}");
}

#[test]
fn a_flag_cleared_under_a_waiter_is_found() {
    let failure = explore(|life| Careless(Cells::new(life)));
    assert!(failure.contains("deadlock"), "{failure}");
}

#[test]
fn releases_that_trust_two_callers_are_found() {
    fn release<L: RawLock>(lock: &L) -> bool {
        // SAFETY: none: the release is wrong where two CPUs release one acquisition.
        unsafe { lock.unlock() };
        true
    }
    let depth = Depth::Bounded;
    sites::reset(None);
    for report in [
        twice(queued::<Halting>, |lock, ()| release(lock), depth),
        twice(wide::<Halting>, |lock, _| release(lock), depth),
    ] {
        assert!(report.failure.is_some(), "the model finds the second release");
    }
}

#[test]
fn cheap_releases_that_nobody_cuts_off_are_found() {
    for failure in [unfenced(wide::<Cheap>), unfenced(queued::<Cheap>)] {
        assert!(failure.contains("deadlock"), "{failure}");
    }
    let failure = unfenced(hybrid::<Cheap>);
    assert!(failure.contains("deadlock"), "{failure}");
}
