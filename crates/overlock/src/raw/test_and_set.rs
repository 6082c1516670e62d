//! `TestAndSet`: one bit, taken by the CPU that tries at the right moment. The unfair baseline.
//!
//! Any CPU may take a released lock: a running one takes it without waiting for one that is not, so
//! a lost CPU costs only its owner. The price is fairness: a waiter may be passed any number of
//! times, without bound.
//!
//! # State
//!
//! Two bits, `LOCKED` and `WAITERS`: see `word/test_and_set.rs`.
//!
//! # Life of an acquisition
//!
//! ```text
//!  (WAITERS, LOCKED)
//!
//!  fast                 : slow                                     : unlock
//!                       :                                          :
//!  (0,0) -> (0,1)       :                                          : (w,1) -> (0,0)
//!    | taken            :                                          :    | w == 1
//!    +----------------->: spin, (w,0) -> (w,1)                     :    v
//!                       :    | budget spent                        :  kick one
//!                       :    v                                     :
//!                       : (*,1) -> (1,1), halt <-+                 :
//!                       :    | kicked            | taken again     :
//!                       :    v                   |                 :
//!                       : (*,0) -> (1,1) --------+                 :
//! ```
//!
//! # Invariants
//!
//! * I1: a CPU that halts has seen `LOCKED` and `WAITERS` after it had made sure that it can be
//!   found; so the release that follows kicks a waiter.
//! * I2: a kicked waiter takes the lock with `WAITERS` set or, if the lock is taken, sets
//!   `WAITERS`: the other waiters are owed the next kick.
//! * I3: a release touches the word once; afterwards only its address is used (F4).
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | every taking CAS or swap | Acquire | O2: the critical sections are ordered |
//! | O2 | the release swap | Release | O1 |
//! | O3 | halting CAS to `WAITERS` | Release | O4: the table entry is visible to a CPU that saw the bit |
//! | O4 | fence after a release that saw `WAITERS` (`park.rs`) | Acquire | O3 |
//!
//! Halt and kick race on one word. If the release comes first, the halting CAS fails; if the CAS
//! comes first, the release sees `WAITERS`. (A platform that kicks by address compares the word
//! itself as it puts the CPU to sleep.)
//!
//! # Sources
//!
//! Test-and-test-and-set with back-off: T. Anderson, "The Performance of Spin Lock Alternatives for
//! Shared-Memory Multiprocessors", IEEE TPDS 1990. The word of three states: U. Drepper, "Futexes
//! Are Tricky", 2011, mutex 2.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::park;
use crate::platform::Platform;
use crate::raw::word::test_and_set::FlagWord;
use crate::raw::{RawLock, RawTimedLock, is_patched_out};
use crate::spin::Spin;

/// How long a waiter spins before it halts, in nanoseconds. This is well below the joint cost of a
/// halt and a wake-up (about 5 µs for a futex between two CPUs); spinning longer burns the time
/// that the holder may need to run.
const SPIN_NS: u64 = 2_000;

/// The most pauses between two looks at a taken lock: a look takes the cache line from the holder.
const BACKOFF_MAX: u32 = 32;

/// The test-and-test-and-set lock. See the [module documentation](self).
pub struct TestAndSet<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

impl<P: Platform, C: Class> TestAndSet<P, C> {
    /// An unlocked lock in a cell, for platforms whose cells can't be constants.
    ///
    /// ```compile_fail,E0133
    /// use core::sync::atomic::*;
    /// use overlock::{TestAndSet, platform::Native};
    /// let lock = TestAndSet::<Native>::with(AtomicU32::new(2));
    /// ```
    ///
    /// # Safety
    /// The cell holds zero. Other values stand for a holder or waiters that do not exist.
    pub const unsafe fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        C::count(Event::LockSlowpath);
        let mut spin = Spin::new(P::costs(), SPIN_NS).with_most_pauses(BACKOFF_MAX);
        loop {
            if self.try_take() {
                return true;
            }
            if !spin.goes_on::<P>() {
                break;
            }
            if !P::waits() && deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                C::count(Event::LockTimeout);
                return false;
            }
        }
        self.halt(deadline_ns)
    }

    /// `(w,0) -> (w,1)`
    #[inline]
    fn try_take(&self) -> bool {
        let word = self.word.load(Relaxed);
        FlagWord::new(word).taken().is_some_and(|taken| {
            // ORDERING: Acquire, O1.
            self.word.compare_exchange(word, taken.bits(), Acquire, Relaxed).is_ok()
        })
    }

    /// `(*,0) -> (1,1)`: this CPU took the lock; true. `(*,1) -> (1,1)`: its holder will kick;
    /// false.
    fn take_or_mark(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let awaited = FlagWord::AWAITED.bits();
            // ORDERING: Acquire, O1, where it takes; Release, O3, where it marks.
            match self.word.compare_exchange(word, awaited, AcqRel, Relaxed) {
                Ok(_) => return !FlagWord::new(word).is_locked(),
                Err(now) => word = now,
            }
        }
    }

    /// Halts until this CPU has the lock, or until the deadline.
    fn halt(&self, deadline_ns: Option<u64>) -> bool {
        let mut event = Event::PvWaitNode;
        loop {
            let mark = || (!self.take_or_mark()).then_some(FlagWord::AWAITED.bits());
            if !park::park::<P>(&self.word, park::Class::ONLY, deadline_ns, mark) {
                return true;
            }
            C::count(event);
            event = Event::PvWaitAgain;
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                // The kick that ended the wait may be meant for another waiter: the mark passes it
                // on (I2).
                let taken = self.take_or_mark();
                if !taken {
                    C::count(Event::LockTimeout);
                }
                return taken;
            }
        }
    }

    /// Kicks one halted waiter of a lock that has been released. Uses the address of the lock only
    /// (I3).
    #[cold]
    #[inline(never)]
    pub(crate) fn kick(lock: *const Self) {
        C::count(Event::PvKickUnlock);
        // The word is the only field with a size.
        park::unpark_one::<P>(lock.cast(), park::Class::ONLY);
    }
}

// SAFETY: `LOCKED` is set by one successful RMW from a word without it, and cleared only by
// `unlock`; O1 and O2 order the critical sections.
unsafe impl<P: Platform, C: Class> RawLock for TestAndSet<P, C> {
    #[inline]
    fn lock(&self) {
        let (free, held) = (FlagWord::FREE.bits(), FlagWord::HELD.bits());
        // ORDERING: Acquire, O1. (0,0) -> (0,1)
        if self.word.compare_exchange(free, held, Acquire, Relaxed).is_err() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        let address = &raw const *self;
        // ORDERING: Release, O2. (w,1) -> (0,0); the word is not touched again (I3).
        if P::WAITS && !is_patched_out::<P>() {
            let before = self.word.swap(FlagWord::FREE.bits(), Release);
            if FlagWord::new(before).has_waiters() {
                Self::kick(address);
            }
        } else {
            self.word.store(FlagWord::FREE.bits(), Release);
        }
    }

    fn is_locked(&self) -> bool {
        FlagWord::new(self.word.load(Relaxed)).is_locked()
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, C: Class> RawTimedLock for TestAndSet<P, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_take() || self.lock_slow(Some(deadline_ns))
    }

    #[inline]
    fn now_ns() -> u64 {
        P::now_ns()
    }
}

faces!(
    TestAndSet<P: Platform, C: Class> called "TestAndSet",
    where P::Word: u32; P::Word::ZERO
);
