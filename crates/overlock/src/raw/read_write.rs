// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RawRwLock`: many readers or one writer. A word that counts readers, and the queue lock as the
//! queue of those who wait.
//!
//! A read-write lock that prefers readers starves its writers, and one that prefers writers stops
//! readers that could go on. Here a waiter, reader or writer, joins one queue; its head waits for
//! the word, and CPUs that are running may pass it, but only so often. So neither starves. The
//! queue is a [`Queued`](crate::Queued) lock: its holder *is* the queue head. The head of the queue
//! halts on the word, and whoever ends its wait kicks it. Readers first wait beside the queue for
//! some milliseconds, because there one kick wakes all of them.
//!
//! # State
//!
//! The word (`raw/word/read_write.rs`) is `(readers, passed, CROWD, U_HALTED, HALTED, DUE,
//! UPGRADABLE, WRITER)`, and for readers without a shared line `(BIASED, FOLDING)` (`bias.rs`).
//! Below it is written `(r, p, h, u, w)`: readers, `passed`, which is zero if no queue head waits
//! and `full` if it is passed no more, `HALTED`, `UPGRADABLE`, `WRITER`. A kick lets CPUs pass a
//! head that wakes up: `p'` is `p`, or less.
//!
//! # Life of an acquisition
//!
//! ```text
//!  newcomer                            : queue head (holds the queue)   : release
//!                                      :                                :
//!  (r,0,0,u,0) -> (r+1,0,0,u,0)   read :                                : (r,p,h,u,0)
//!  (r,p,h,u,0) -> (r+1,p+1,h,u,0) pass :                                :   -> (r-1,p,h,u,0)
//!  (0,0,0,0,0) -> (0,0,0,0,1)    write :                                : (1,p,1,u,0)
//!  (0,p,h,0,0) -> (0,p+1,h,0,1)   pass :                                :   -> (0,p',0,u,0), kick
//!     | no room, or p is full          :                                : (0,p,1,0,1)
//!     v                                :                                :   -> (0,p',0,0,0), kick
//!   spins                              :                                :
//!     | budget spent                   :                                :
//!     v                                :                                :
//!   takes the queue; a reader first    : (r,p,0,u,w) -> (r,full,0,u,w)  :
//!   halts outside it ----------------->:    | budget spent   ^ kicked   :
//!                                      :    v                |          :
//!                                      : (r,p,0,u,w) -> (r,p,1,u,w) halts:
//!                                      :                                :
//!                                      : (r,p,h,u,0) -> (r+1,0,0,u,0)   :
//!                                      : (0,p,h,0,0) -> (0,0,0,0,1)     :
//!                                      :    takes, and leaves the queue :
//! ```
//!
//! An upgradable reader is beside readers and beside no other upgradable one; it is no reader in
//! the count. To upgrade, it sets `DUE`, which bars readers, waits until `r` is zero, and becomes
//! the writer in one access (`upgrade.rs`).
//!
//! # The race of halt and release
//!
//! ```text
//!   queue head                             last reader, or writer
//!   CAS word: HALTED set, still no room    RMW word: the reader, or WRITER, is gone
//!   ok: halt                               found HALTED: kick
//!   failed: look again                     else: the head's CAS fails
//! ```
//!
//! Both change one word, so one comes first. If the release does, the head's CAS fails, and the
//! head finds room. If the CAS does, the release finds `HALTED`. A release that kicks clears
//! `HALTED` in the same access if it saw it before; otherwise `HALTED` stays until the head is
//! back, and the release of a later reader kicks once more, which is needless and harmless (P4).
//!
//! # Invariants
//!
//! * R1: `WRITER` excludes readers, `UPGRADABLE` and another `WRITER`; each is taken by one CAS
//!   from a word that has room.
//! * R2: `passed` is not zero only while the holder of the queue waits for the word; that CPU sets
//!   it and clears it. A newcomer that takes the lock meanwhile counts, in the access that takes,
//!   and may not if the count is full. Only a writer's release that kicks a halted head makes
//!   room in the count, at most once in a halt.
//! * R3: if `HALTED` is set, each release after which a writer would have room, and each that ends
//!   `WRITER`, `UPGRADABLE` or `DUE`, kicks. So does a reader that leaves last if `U_HALTED` is
//!   set.
//! * R4: only the queue head waits for `HALTED`, and only the CPU with `UPGRADABLE` for `U_HALTED`.
//!   A kick finds both by the address of the word.
//! * R5: after its read-modify-write, a release uses only the address of the word (F4). A CPU that
//!   releases the queue holds the lock, or has given up and still borrows it.
//! * R6: `BIASED` is set and cleared only by the CPU that holds the queue. `BIASED` excludes
//!   `WRITER`, `UPGRADABLE` and `passed`; so does `FOLDING`, which bars all newcomers.
//! * R7: while a reader has halted outside the queue and no kick for it is due, `CROWD` is set, and
//!   newcomers have no room or a queue head waits. Each change after which they have room and no
//!   head waits kicks if it finds `CROWD` (`wait.rs`).
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | R-O1 | every CAS that takes the lock, or upgrades | Acquire | R-O2: a reader sees what the writer before it did, a writer what all readers before it did |
//! | R-O2 | every release and downgrade | Release | R-O1 |
//! | R-O3 | setting `HALTED`, `U_HALTED` or `CROWD` | Release | R-O4: the table entry is visible to a CPU that saw the bit |
//! | R-O4 | fence before a kick (`park.rs`) | Acquire | R-O3 |
//!
//! Only read-modify-writes change the word, so each continues the release sequences of those before
//! it: a writer's CAS synchronises with every reader that has left.
//!
//! # Bounds
//!
//! A queue head is passed at most [`MAX_BYPASS`](RawRwLock::MAX_BYPASS) times: 32 times in each of
//! its first 16 halts, while it wakes up. Those behind it are in the order in which they joined the
//! queue, each passed at most as often when it is the head. A reader joins the queue when it has
//! waited outside for a thousand wake-up latencies; writers join at once. A reader that asks for
//! it ([`lock_shared_recursive`](RawRwLock::lock_shared_recursive)) passes a waiting writer without
//! a count, as long as the lock is being read: the writer may wait for that very reader.
//!
//! # Limits
//!
//! * The word counts 65,536 readers. One more waits.
//! * A thread that reads twice, the second time not recursively, waits for ever if a writer has
//!   come in between and is not passed any more.
//! * A signal handler that jumps out of a wait in its slow half leaves the lock unusable.
//! * A CPU that loses its processor while it holds the queue and can't be passed keeps newcomers
//!   out until it is back, as the queue locks' heads do.
//!
//! # Sources
//!
//! W. Long, "qrwlock: A queue read/write lock implementation" (Linux 3.16
//! kernel/locking/qrwlock.c): a count and a queue lock whose holder waits for the count. The
//! upgradable reader, which excludes its like, is `parking_lot`'s and Boost's. The queue, its pace,
//! halts and kicks: [`queue`](super::queue).

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::queue::{QueueLock, order::Strict};
use super::{ConstLock, RawLock, RawTimedLock};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::park;
use crate::platform::{Bias, Platform, Unbiased};
use crate::raw::word::read_write::{RwWord, Want, cas, rmw, update};

mod bias;
mod upgrade;
mod wait;

/// A lock for many readers or one writer. See the [module documentation](self).
///
/// As a [`RawLock`] it is held for writing. A CPU releases what it has taken: nothing here finds
/// out that another one does.
#[repr(C)]
pub struct RawRwLock<P: Platform, C: Class = Uncounted, B: Bias<P> = Unbiased> {
    word: P::Word,
    queue: QueueLock<P, Strict>,
    pace: B::Pace,
    class: PhantomData<(C, B)>,
}

impl<P: Platform, C: Class, B: Bias<P>> RawRwLock<P, C, B> {
    /// How many acquisitions may pass a waiter while it is the queue head.
    pub const MAX_BYPASS: u32 = RwWord::PASSES * RwWord::PASSED_HALTS;

    /// An unlocked lock in two cells, for platforms whose cells can't be constants.
    ///
    /// # Safety
    /// Each cell holds zero. Other values stand for holders or waiters that do not exist.
    pub const unsafe fn with(word: P::Word, queue: P::Word) -> Self {
        // SAFETY: the caller's.
        let queue = unsafe { QueueLock::with(queue) };
        Self { word, queue, pace: B::NEW, class: PhantomData }
    }

    #[inline(always)]
    fn look(&self) -> RwWord {
        RwWord::new(self.word.load(Relaxed))
    }

    /// Takes the lock if it has room and newcomers may pass.
    #[inline(always)]
    fn try_take(&self, want: Want) -> bool {
        let mut seen = self.look();
        while let Some(new) = seen.taken_by_newcomer(want) {
            // ORDERING: Acquire, R-O1.
            match cas(&self.word, seen, new, Acquire) {
                Ok(()) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Waits until no writer holds the lock, and takes it for reading. A writer that waits is
    /// passed a bounded number of times.
    #[inline]
    pub fn lock_shared(&self) {
        if self.enters_by_bias() {
            return;
        }
        if self.try_take(Want::Read) {
            self.may_be_biased();
        } else {
            self.lock_slow(Want::Read, None);
        }
    }

    /// Takes the lock for reading if that is possible without waiting. Returns whether it did.
    #[inline]
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_shared(&self) -> bool {
        self.enters_by_bias() || self.try_take(Want::Read)
    }

    /// Takes the lock for reading if that is possible before the platform's clock reads
    /// `deadline_ns`. Returns whether it did, and false no earlier than the deadline.
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_shared_until(&self, deadline_ns: u64) -> bool {
        self.try_lock_shared() || self.lock_slow(Want::Read, Some(deadline_ns))
    }

    /// Takes the lock for reading, and does not wait for a writer that waits itself: for a thread
    /// that reads already, for which such a writer waits.
    #[inline]
    pub fn lock_shared_recursive(&self) {
        if !self.try_lock_shared_recursive() {
            self.read_again_slow(None);
        }
    }

    /// [`lock_shared_recursive`](Self::lock_shared_recursive), if it is possible without waiting.
    /// For a thread that reads already, it is.
    #[inline]
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_shared_recursive(&self) -> bool {
        self.enters_by_bias() || self.take_again().is_ok()
    }

    /// Takes the lock for reading past any waiter. Returns the word that does not let it.
    #[inline]
    fn take_again(&self) -> Result<(), RwWord> {
        let mut seen = self.look();
        while let Some(new) = seen.taken_again() {
            // ORDERING: Acquire, R-O1.
            match cas(&self.word, seen, new, Acquire) {
                Ok(()) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// [`lock_shared_recursive`](Self::lock_shared_recursive), if it is possible before the
    /// deadline.
    #[must_use = "if this returns true, the lock must be released"]
    pub fn try_lock_shared_recursive_until(&self, deadline_ns: u64) -> bool {
        self.try_lock_shared_recursive() || self.read_again_slow(Some(deadline_ns))
    }

    /// Releases the lock, held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_shared(&self) {
        if self.leaves_by_bias() {
            return;
        }
        let address = &raw const self.word;
        if self.look().left_by_last_reader().is_some() {
            return self.leave_last();
        }
        // ORDERING: Release, R-O2. (r,..) -> (r-1,..). The word is not touched again (R5).
        let before = self.word.fetch_sub(rmw::LEAVE, Release);
        if P::WAITS && RwWord::new(before).was_last_of() {
            Self::kick(address);
        }
    }

    /// [`unlock_shared`](Self::unlock_shared), where a CPU has halted until the last reader leaves.
    #[cold]
    #[inline(never)]
    fn leave_last(&self) {
        let address = &raw const self.word;
        let mut seen = self.look();
        loop {
            let last = seen.left_by_last_reader();
            let new = last.unwrap_or(RwWord::new(seen.bits().wrapping_sub(rmw::LEAVE)));
            // ORDERING: Release, R-O2. (1,h) -> (0,0), or (r,h) -> (r-1,h).
            match cas(&self.word, seen, new, Release) {
                Ok(()) if last.is_some() => return Self::kick(address),
                Ok(()) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// The release of a writer for which others wait.
    #[cold]
    #[inline(never)]
    fn leave_waiters(&self) {
        let address = &raw const self.word;
        // ORDERING: Release, R-O2. (0,p,h,0,1) -> (0,p',0,0,0). The word is not touched again (R5).
        let before = update(&self.word, Release, |seen| Some(seen.left_by_writer()));
        let before = before.unwrap_or(RwWord::FREE);
        Self::kick_for(address, before, before.left_by_writer());
    }

    /// Kicks the CPUs that have halted for a lock: the queue head, the upgrading CPU, the crowd.
    /// Only the address is used (R5).
    #[cold]
    #[inline(never)]
    fn kick(word: *const P::Word) {
        C::count(Event::PvKickUnlock);
        // The R-O4 fence is in there.
        park::unpark_all::<P>(word);
    }

    /// Kicks, if this change of the word found the queue head halted, or a crowd that now may come.
    fn kick_for(address: *const P::Word, before: RwWord, after: RwWord) {
        if P::WAITS && (before.is_head_halted() || before.has_crowd() && after.invites_crowd()) {
            Self::kick(address);
        }
    }

    /// Removes all waiters: for a forked child, which has none of the threads that waited. Who
    /// holds the lock, and for what, stays as it was.
    ///
    /// # Safety
    /// No CPU waits for this lock, or begins to before this returns. (Others may take it and
    /// release it meanwhile.)
    pub unsafe fn forget_waiters(&self)
    where
        P::Word: ConstAtomic<u32>,
    {
        // SAFETY: a new queue; the old one is accessed only by those that wait, which are gone. A
        // queue consists of one cell.
        unsafe {
            (&raw const self.queue).cast_mut().write(QueueLock::with(P::Word::ZERO));
        }
        self.word.fetch_and(rmw::NO_WAITERS, Relaxed);
    }

    /// Whether a CPU holds the lock for reading or writing. The answer may be out of date by the
    /// time it is returned.
    pub fn is_locked_at_all(&self) -> bool {
        let seen = self.look();
        // A writer finds out whether a biased lock is.
        seen.is_written() || seen.is_upgradable() || seen.may_have_notes() || seen.readers() != 0
    }
}

// SAFETY: `WRITER` is set by a successful CAS from a word without it, without readers and without
// `UPGRADABLE` (R1), and cleared only by the writer; R-O1 and R-O2 order the critical sections.
unsafe impl<P: Platform, C: Class, B: Bias<P>> RawLock for RawRwLock<P, C, B> {
    #[inline]
    fn lock(&self) {
        // ORDERING: Acquire, R-O1. (0,0,0,0,0) -> (0,0,0,0,1)
        if cas(&self.word, RwWord::FREE, RwWord::WRITTEN, Acquire).is_err() {
            self.lock_slow(Want::Write, None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_take(Want::Write) || self.try_take_biased(Want::Write)
    }

    #[inline]
    unsafe fn unlock(&self) {
        let address = &raw const self.word;
        if P::WAITS && self.look().has_waiters() {
            return self.leave_waiters();
        }
        // ORDERING: Release, R-O2. (0,p,h,0,1) -> (0,p,0,0,0). The word is not touched again (R5).
        let before = self.word.fetch_and(rmw::WRITTEN, Release);
        if P::WAITS && RwWord::new(before).has_waiters() {
            Self::kick_for(address, RwWord::new(before), RwWord::new(before & rmw::WRITTEN));
        }
    }

    /// Whether it is held for writing.
    fn is_locked(&self) -> bool {
        self.look().is_written()
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, C: Class, B: Bias<P>> RawTimedLock for RawRwLock<P, C, B> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_take(Want::Write) || self.lock_slow(Want::Write, Some(deadline_ns))
    }

    #[inline]
    fn now_ns() -> u64 {
        P::now_ns()
    }
}

impl<P: Platform, C: Class, B: Bias<P>> RawRwLock<P, C, B>
where
    P::Word: ConstAtomic<u32>,
{
    /// An unlocked lock. All its bytes are zero.
    pub const fn new() -> Self {
        // SAFETY: `ConstAtomic::ZERO` holds zero.
        unsafe { Self::with(P::Word::ZERO, P::Word::ZERO) }
    }
}

impl<P: Platform, C: Class, B: Bias<P>> ConstLock for RawRwLock<P, C, B>
where
    P::Word: ConstAtomic<u32>,
{
    const NEW: Self = Self::new();
}

impl<P: Platform, C: Class, B: Bias<P>> Default for RawRwLock<P, C, B>
where
    P::Word: ConstAtomic<u32>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, C: Class, B: Bias<P>> fmt::Debug for RawRwLock<P, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.look();
        let (written, readers) = (seen.is_written(), seen.readers());
        f.debug_struct("RawRwLock")
            .field("written", &written)
            .field("readers", &readers)
            .finish_non_exhaustive()
    }
}
