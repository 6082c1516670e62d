//! Faulty locks, each with one fault, to show that the models find it; and the real locks where the
//! platform or the states of nodes are at fault.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use overlock::RawLock;
use overlock::atomic::Atomic;
use overlock::platform::Platform;

use crate::support::cells::{Life, Part, Word};
use crate::support::locks::Step::{self, Enter};
use crate::support::locks::{Kind, Verbs, hybrid, locks, queued, unwatched, wide};
use crate::support::models::{Depth, Report};
use crate::support::platform::worlds::{FUTEX, STALE};
use crate::support::platform::{Barrier, ByAddress, Cheap, World};
use crate::support::shared::clears_first;
use crate::support::sites;
use crate::support::states::Numbers;
use crate::support::table::{
    HYBRID, INTERRUPTED, INTERRUPTED_KICK, LATE, LATE_KICK, QUEUED, TICKET, TWO,
};
use crate::support::unsure::{self, twice};

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

        impl Verbs for $lock {}
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

/// Explores to the model's own bound; returns why it failed.
fn found(explore: impl FnOnce(Depth) -> Report) -> String {
    sites::reset(None);
    explore(Depth::Bounded).failure.expect("the model finds what is wrong")
}

/// What is wrong with a lock of this make that two CPUs enter twice each.
fn contended(make: fn(&'static Life) -> Box<dyn Verbs>) -> String {
    const STEPS: &[&[Step]] = &[&[Enter(0), Enter(0)], &[Enter(0), Enter(0)]];
    found(locks(STALE, Some(3), STEPS, [Kind { make, watch: unwatched }]))
}

#[test]
fn every_fault_is_found() {
    for (failure, said) in [
        (contended(|_| Box::new(NoOp)), "Concurrent write accesses"),
        (contended(|life| Box::new(Forgetful(Cells::new(life)))), "deadlock"),
        (
            contended(|life| Box::new(Lingering(Cells::new(life)))),
            "Concurrent read and write accesses",
        ),
        (contended(|life| Box::new(Careless(Cells::new(life)))), "deadlock"),
    ] {
        assert!(failure.contains(said), "{failure}");
    }
}

#[test]
fn releases_that_trust_two_callers_are_found() {
    fn release<L: RawLock>(lock: &L) -> bool {
        // SAFETY: none: the release is wrong where two CPUs release one acquisition.
        unsafe { lock.unlock() };
        true
    }
    found(twice(unsure::QUEUED, |lock, ()| release(lock)));
    found(twice(unsure::TICKET, |lock, _| release(lock)));
}

/// `membarrier` does nothing.
#[test]
fn cheap_releases_that_nobody_cuts_off_are_found() {
    let world = World { barrier: Barrier::Pretended, ..FUTEX };
    for kind in [wide::<Cheap>(), queued::<Cheap>(), hybrid::<Cheap>()] {
        let failure = found(locks(world, None, TWO, [Kind { watch: unwatched, ..kind }]));
        assert!(failure.contains("deadlock"), "{failure}");
    }
}

/// A late kick for a ticket mistakes a waiter that has halted in a queue for one of its own. The
/// waiter comes back in an impossible state and believes that it is the queue head. (What `park.rs`
/// writes also contains a tag of the word, so it is still distinct.) The locks had this fault once;
/// models with one kind of lock do not show it.
#[test]
fn states_with_equal_numbers_are_found() {
    for second in [QUEUED, HYBRID] {
        let world = World { numbers: Numbers::Shared, ..LATE };
        let failure = found(locks(world, Some(1), LATE_KICK, [TICKET, second]));
        assert!(failure.contains("left != right") || !cfg!(debug_assertions), "{failure}");
    }
}

/// A release announces that it has kicked, but is interrupted before it does. Its handler then
/// waits behind the very waiter that it was about to kick.
#[test]
fn a_mark_before_the_kick_is_found() {
    for (first, second) in [(QUEUED, QUEUED), (QUEUED, HYBRID), (HYBRID, QUEUED), (HYBRID, HYBRID)]
    {
        let world = World { numbers: Numbers::Early, ..INTERRUPTED };
        let failure = found(locks(world, Some(2), INTERRUPTED_KICK, [first, second]));
        assert!(failure.contains("deadlock"), "{failure}");
    }
}

/// Who clears `FIRST` in the word of a read-write lock kicks no writer that goes first.
#[test]
fn a_cleared_first_without_a_kick_is_found() {
    for how in 0..3 {
        let failure = found(clears_first(how, true));
        assert!(failure.contains("deadlock"), "{how}: {failure}");
    }
}
