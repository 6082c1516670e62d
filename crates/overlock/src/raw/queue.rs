//! The queue locks: an MCS queue behind a 4-byte word. [`Queued`](crate::Queued) and
//! [`Hybrid`](crate::Hybrid) are this lock with two [orders](Order).
//!
//! The lock in four files, in this order: here, [`QueueLock::lock`] and its release; `newcomer.rs`,
//! waiting outside the queue (in unfair order); `wait.rs`, waiting in the queue until this waiter
//! is its head;
//! `head.rs`, taking the lock as the queue head. Beside them, `enqueue.rs` joins the queue,
//! `hand_off.rs` leaves it and promotes the next waiter, and `kick.rs` wakes a head that has
//! halted. `spin.rs` decides how long each step lasts; the protocol does not depend on it.
//!
//! # State
//!
//! The word (`raw/word/queue.rs`) is `(tail, NO_STEALING, HALTED, steals, LOCKED)`, and `PARKED`
//! and `ABSENT`, which are left out below.
//!
//! A node's `state` is the one word on which a waiter and its wakers race:
//!
//! ```text
//!          halts             promoted asleep            kicks           has kicked
//!  WAITING ------> HALTED_BEHIND -----------> HEAD_HALTED ---> KICKING ---------> KICKED
//!   ^ | |                 |                      ^     |          |                 |
//!   | | | promoted        | gives up       halts |     |          | comes back      |
//!   | | v                 v                      |     v          v                 |
//!   | | HEAD           GIVEN_UP                  +---- HEAD <-----+-----------------+
//!   | | gives up        | | | skipped
//!   | +-----------------+ | +----------> SKIPPED ----------> RELEASED
//!   +---------------------+             no CPU can reach the node
//!     comes again
//! ```
//!
//! A holder promotes a waiter asleep, because its release will kick. One that gives up has no
//! release to come: `HALTED_BEHIND` then becomes `HEAD`, and is kicked at once.
//!
//! `KICKING` says that a release is about to kick, and names its CPU, because only that CPU may
//! turn the state into `KICKED`. Another release that finds `KICKING` kicks too; if the mark is
//! older than the wake-up latency, it also replaces the name by its own, because the named CPU
//! seems to have lost its processor.
//!
//! A waiter that gives up behind others can't take its node out of the queue; whoever would promote
//! it skips it. If its CPU wants the lock again before that, it takes its old place back. So a CPU
//! that tries again and again behind one long holder keeps its place, and does not run out of
//! nodes. (A queue head that gives up leaves the queue, and begins anew.)
//!
//! A node's `next` is zero until the successor links itself; then it is the successor's code, or
//! `GONE` if the waiter left first.
//!
//! # Life of an acquisition
//!
//! ```text
//!  (t, d, h, n, l): tail, NO_STEALING, HALTED, steals, LOCKED
//!
//!  newcomer                         : queue head                     : release
//!                                   :                                :
//!  (0,0,0,0,0) -> (0,0,0,0,1)       :                                : (t,d,h,n,1)
//!  (t,0,0,0,0) -> (t,0,0,0,1) steal :                                :  -> (t,d,h,n,0)
//!  (t,0,h,n,0) -> (t,0,h,n+1,1)     :                                : (t,d,h,0,1)
//!     | held                  steal :                                :  -> (t,d,h,1,0)
//!     v                             :                                :     | h, PARKED
//!  spins, halts on the word         :                                :     v
//!     | for long                    :                                :   kicks the head, wakes one
//!     v                             :                                :
//!  (t,d,h,n,1) -> (me,d,h,n,1) ---->: spins; tenure over:            :
//!                           waits   : (t,0,0,n,l) -> (t,1,0,n,l)     :
//!                                   :    | budget spent  ^ kicked    :
//!                                   :    v               |           :
//!                                   : (t,d,0,n,1) -> (t,?,1,n,1)     :
//!                                   :                        halts   :
//!                                   : (t,d,h,n,0) -> (t,0,0,0,1)     :
//!                                   :    takes, and promotes the next:
//! ```
//!
//! # Invariants
//!
//! * Q1: exactly one node of a queue is its head: it has no predecessor, or its predecessor has
//!   taken the lock or given up. Only the head may take the lock out of the queue, disable
//!   stealing, or halt on the lock.
//! * Q2: `HEAD_HALTED` in a node implies its entry in the table; `HALTED` in the word implies that
//!   a node is in one of `HEAD_HALTED`, `KICKING` and `KICKED`, or on its way out of them. Once the
//!   lock is free, `HEAD_HALTED` implies that `HALTED` is set, or that a release is about to kick.
//! * Q3: a release that sees `HALTED` finds the queue head in the table, or the head is awake and
//!   looks at the word again before it halts.
//! * Q4: no CPU waits for another that may have been taken away: a holder does not wait for its
//!   successor to link itself, nor does a promoter wait for a waiter that gave up.
//! * Q5: a node is reused only when no other CPU can reach it: its successor has linked itself, or
//!   the tail named it when it left.
//! * Q6: `KICKED` implies that the waiter has been kicked since it halted. A release that finds any
//!   earlier state kicks: it can't rely on another release, which may have been taken away before
//!   it kicked. The other need not even be a release of this lock: it may have found the node when
//!   the waiter halted for another lock, and its CPU may by now wait for this lock in an interrupt.
//! * Q7: a cheap release ([`CheapRelease`]) commits only if it found no queue, and stores only the
//!   lowest byte. So the only thing it can miss is a queue that was empty when it looked, and the
//!   only thing it can lose is the 1 that came with `NO_STEALING` (`raw/word/queue.rs`). A queue
//!   head that joined an empty queue, and has not seen a steal since (the count is above 1), calls
//!   `membarrier` before it relies on `HALTED`. Every later
//!   holder took the lock by a read-modify-write of the word that came after the tail was written,
//!   and its release looks at the tail after that.
//! * I1: a steal needs `LOCKED` and `NO_STEALING` clear and a count below the bound, and is one CAS
//!   on all of them. The fast path looks only at the lowest byte of the word, so it may be the
//!   first to pass a head without counting itself. Then its release counts, in the access that
//!   gives the lock away. (A release that can't tell counts too: the bound still holds.) Where
//!   `NO_STEALING` is set, the byte is not zero, so the fast path passes no CPU. The exception is a
//!   cheap release that missed the queue: one CPU may then pass, and its release makes the byte
//!   nonzero again.
//! * I2: only the queue head reduces the count of a queue: to zero, when it leaves the queue.
//! * I3: a release that sees `HALTED` kicks the queue head.
//! * I4: a waiter outside the queue halts only on a word that says `PARKED`, and a release that
//!   clears `PARKED` wakes one of them. One that has halted sets `PARKED` when it takes the lock,
//!   joins the queue or gives up; a head that gives up a free lock wakes one, too.
//! * I5: after its store or read-modify-write, a release uses only the address of the word (F4).
//! * I6: only a waiter that has found the same reservation twice, some milliseconds apart, passes a
//!   head that it may not steal from (`newcomer.rs`, `wait.rs`). It sets `ABSENT`; from then on the
//!   head is passed without a count, until it clears the bit.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | every CAS that takes the lock | Acquire (AcqRel on the way into the queue) | O2: the critical sections are ordered. On machines with separate acquire and release accesses nothing stronger is emitted (S3) |
//! | O2 | the release: CAS or cheap release | Release | O1 |
//! | O3 | setting `PARKED` | Release | the fence in `park.rs`: the table entry is visible to a release that sees the bit |
//! | Q-O1 | tail CAS in `enqueue` | AcqRel | itself: the predecessor has initialised its node before the successor links to it; and Q-O7 |
//! | Q-O2 | `next` swap, by successor and by predecessor | AcqRel; Release by a predecessor that leaves | itself: the successor's node is initialised before it is promoted past a waiter that gave up; and every CPU that can reach a node is done with it before it is released |
//! | Q-O3 | setting `HALTED` in the word, by the queue head | Release | Q-O4: the table entry, and `HEAD_HALTED`, are visible to a release that sees the bit |
//! | Q-O4 | fence after a release that saw `HALTED` | Acquire | Q-O3 |
//! | Q-O5 | promotion, asleep | Release | Q-O6: the entry and the bit exist before their owner removes them |
//! | Q-O6 | waiter's read of `HEAD_HALTED`, `KICKED` | Acquire | Q-O5 |
//! | Q-O7 | the CAS by which the head leaves the queue, with the lock or without | Acquire | Q-O1: a tail that names another was written after the successor had initialised its node |
//!
//! Only read-modify-writes change the word (to memory, a cheap release is one), so each continues
//! the release sequences of those before it. Q-O7 synchronises with the successor's tail CAS
//! whichever CPU joined after it, and a release that sees `HALTED` synchronises with Q-O3 through
//! every read-modify-write between. A promoter that sets `HALTED` for its successor holds the lock:
//! the next CPU to release the lock is the promoter itself, or one that has acquired the lock from
//! it.
//!
//! # Departures from Linux's queued lock
//!
//! * A holder does not wait for the successor's link (Linux: `smp_cond_load_relaxed(&node->next,
//!   (VAL))`). If the successor lost its CPU between its tail CAS and its link, the wait would
//!   extend the critical section until it is back (Q4).
//! * A waiter can give up (Q4, F20).
//! * There is no pending waiter before the queue.
//!
//! # Sources
//!
//! J. Mellor-Crummey, M. Scott, "Algorithms for Scalable Synchronization on Shared-Memory
//! Multiprocessors", ACM TOCS 1991; Linux 6.x kernel/locking/qspinlock.c and qspinlock_paravirt.h
//! (the word, the tail code, halting, hashing).

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::queue::{LockWord, cas, rmw, update};
use crate::raw::{RawLock, RawTimedLock, is_patched_out};

mod enqueue;
mod give_up;
mod hand_off;
mod head;
mod kick;
mod newcomer;
pub(crate) mod order;
mod release;
mod wait;

use enqueue::{Enqueued, Place};
pub use order::Order;
use wait::{Outside, Waited};

/// A lock with a queue of waiters. See the [module documentation](self).
pub struct QueueLock<P: Platform, O: Order, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<(O, C)>,
}

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// How many acquisitions may pass a waiter while it is the queue head, and can run. (A head
    /// that does not come although the lock is free is passed by waiters now and then: `wait.rs`.)
    pub const MAX_BYPASS: u32 = LockWord::STEALS_MAX;

    /// An unlocked lock in a cell, for platforms whose cells can't be constants.
    ///
    /// ```compile_fail,E0133
    /// use core::sync::atomic::*;
    /// use overlock::{Hybrid, platform::Native};
    /// let lock = Hybrid::<Native>::with(AtomicU32::new(1));
    /// ```
    ///
    /// # Safety
    /// The cell holds zero. Other values stand for a holder or waiters that do not exist.
    pub const unsafe fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[inline(always)]
    fn look(&self) -> LockWord {
        LockWord::new(self.word.load(Relaxed))
    }

    /// Takes the lock if it is free and a newcomer may take it.
    #[cold]
    #[inline(never)]
    fn try_take(&self) -> bool {
        let seen = self.look();
        // ORDERING: Acquire, O1.
        seen.taken_by_newcomer(false).is_some_and(|new| cas(&self.word, seen, new, Acquire).is_ok())
    }

    /// Waits for the lock. Returns false if the deadline passed first.
    ///
    /// It begins with one more try: the fast path takes no lock that others wait for.
    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, deadline_ns: Option<u64>) -> bool {
        if self.try_take() {
            return true;
        }
        C::count(Event::LockSlowpath);
        let mut has_parked = false;
        loop {
            let parks = O::UNFAIR && P::WAITS && P::waits();
            if parks {
                match self.lock_outside(&mut has_parked, deadline_ns) {
                    Outside::Took => return true,
                    Outside::Late => return false,
                    Outside::Waited => {}
                }
            }
            let waited = match Place::<P, O, C>::enqueue(&self.word, has_parked) {
                Enqueued::Took => return true,
                Enqueued::NoNode if parks => continue,
                Enqueued::NoNode => return self.wait_without_node(deadline_ns),
                Enqueued::Head(place) => Waited::Head(place),
                Enqueued::Behind(place) => place.wait_behind(deadline_ns),
            };
            match waited {
                Waited::Head(head) => return head.lock_as_head(deadline_ns),
                Waited::Late => return false,
                Waited::Reserved(reservation) if self.take_past_reservation(reservation) => {
                    return true;
                }
                Waited::Reserved(_) => {}
            }
        }
    }

    /// Takes a lock that has been reserved for its queue head in vain. This waiter may have had a
    /// wake-up that was meant for another, and passes it on.
    #[cold]
    fn take_past_reservation(&self, reservation: u32) -> bool {
        let is_same = |seen: LockWord| seen.reservation() == Some(reservation);
        let passed_on = |new: LockWord| if O::UNFAIR { new.passed_on() } else { new };
        let takes =
            |seen: LockWord| is_same(seen).then(|| passed_on(seen.taken_past_reservation()));
        // ORDERING: Acquire, O1.
        update(&self.word, Acquire, takes).is_ok_and(|_| Self::has_stolen())
    }

    /// Counts an acquisition by a newcomer that had to wait.
    fn has_stolen() -> bool {
        C::count(Event::PvLockStealing);
        true
    }
}

// SAFETY: `LOCKED` is set by a successful CAS from a word without it, and cleared only by the
// holder's release; O1 and O2 order the critical sections.
unsafe impl<P: Platform, O: Order, C: Class> RawLock for QueueLock<P, O, C> {
    #[inline]
    fn lock(&self) {
        // Acquire, O1. (0,0,0,0,0) -> (0,0,0,0,1), or (t,0,0,0,0) -> (t,0,0,0,1) (I1)
        if !P::Release::set_lowest_bit(&self.word) {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        P::Release::set_lowest_bit(&self.word) || self.try_take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        const { assert!(P::WAITS || !P::Release::EXISTS, "a cheap release is for CPUs that wait") };
        if !P::WAITS || is_patched_out::<P>() {
            return self.release_natively();
        }
        if P::Release::clear_low_byte(&self.word) {
            return;
        }
        if !O::UNFAIR && !P::Release::EXISTS {
            // No steal is left to be counted, and no waiter halts outside the queue.
            let address = core::ptr::from_ref(&self.word);
            // ORDERING: Release, O2. The word is not touched again (F4).
            let before = self.word.fetch_sub(rmw::RELEASE, Release);
            if LockWord::new(before).is_head_halted() {
                kick::kick_head::<P, C>(address);
            }
            return;
        }
        // ORDERING: Release, O2. (0,0,0,0,1) -> (0,0,0,0,0)
        if cas(&self.word, LockWord::HELD, LockWord::FREE, Release).is_err() {
            // SAFETY: the caller holds the lock.
            unsafe { self.release(false) };
        }
    }

    fn is_locked(&self) -> bool {
        self.look().is_locked()
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, O: Order, C: Class> RawTimedLock for QueueLock<P, O, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_lock() || self.lock_slow(Some(deadline_ns))
    }

    #[inline]
    fn now_ns() -> u64 {
        P::now_ns()
    }
}

faces!(
    QueueLock<P: Platform, O: Order, C: Class> called O::NAME,
    where P::Word: u32; P::Word::ZERO
);
