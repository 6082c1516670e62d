//! `RawRwLock`: many readers or one writer, in one word.
//!
//! A read-write lock that prefers readers starves its writers, and one that prefers writers starves
//! its readers. Here each side takes a lock that is free, and when it has waited in vain it *bars*
//! the other side: the next turn is its own. No turn is given to a waiter by name, and no bar
//! outlasts the time in which a waiter that can run would have come. So a waiter that never runs
//! again costs the others that time once.
//!
//! # State
//!
//! One word (`raw/word/read_write.rs`), written `(holds, BARRED, ASLEEP)`, or with `f` in place of
//! a 1 for `BARRED` if `FIRST` is set, too. `holds` is the number of readers, with a `u` if one of
//! them may upgrade, or `W` (written), `C` (written, and the readers have claimed the next turn),
//! or `T` (free, and it is the readers' turn). Nothing else is known of holders and waiters: guards
//! can be released by any CPU, and a lock that no CPU uses can be moved. A waiter halts on the word
//! as one of a class, and a kick is for a class.
//!
//! | state | plain readers | those that read already | writers |
//! |---|---|---|---|
//! | `(0,0,a)` | enter | enter | enter |
//! | `(0,1,a)` | wait, for `reserved_ns` at most | enter | enter |
//! | `(0,f,a)` | wait, for `reserved_ns` at most | enter | enter if they have halted, and otherwise wait, for `reserved_ns` at most |
//! | `(T,b,0)` | enter | enter | wait, for `reserved_ns` at most |
//! | `(n,0,a)`, `(nu,0,a)` | enter | enter | wait |
//! | `(n,1,a)`, `(nu,1,a)` | wait | enter | wait |
//! | `(W,b,a)`, `(C,b,a)` | wait | wait | wait |
//!
//! Attempts that do not wait, and waits at their deadline, take any free lock. One that wants to be
//! the upgradable reader is a plain reader that also waits while there is a `u`.
//!
//! # Life of an acquisition
//!
//! ```text
//!   reader                     : writer                      : release
//!                              :                             :
//!   (n,0,a) -> (n+1,0,a)       : (0,b,a) -> (W,b,a)          : reader: (n,b,a) -> (n-1,b,a),
//!     | no room                :   | no room                 :   the last kicks a writer if b
//!     v                        :   v                         :
//!   spins                      : spins                       : writer: (W,b,a) -> (0,0,0),
//!     | budget spent           :   | budget spent            :   kicks all readers if a,
//!     v                        :   v                         :   and a writer if b
//!   (h,b,a) -> (h,b,1), halts  : (h,b,a) -> (h,1,a), halts   :
//!     | kicked                 :   | kicked                  : writer: (C,b,1) -> (T,b,0),
//!     v                        :   v                         :   kicks all readers
//!   as at first; the fifth     : sets b, and then as at      : writer: (W,f,a) -> (0,f,a),
//!   time, if it finds W:       : first; after outside_ns:    :   kicks those that go first
//!   (W,b,a) -> (C,b,1), halts  : (h,b,a) -> (h,f,a), halts   : upgradable reader: (nu,0,1)
//!   (T,b,0) -> (1,0,0),        : (0,f,a) -> (W,1,a), kicks   :   -> (n-1,0,0), kicks one that
//!     kicks a writer if b      :   those that go first       :   wants that, and a writer
//! ```
//!
//! The upgradable reader is one of the readers. To upgrade, it bars the others, `(nu,b,a) ->
//! (nu,1,a)`, and takes the lock when it is the last, `(1u,b,a) -> (W,b,a)`. Beside a `u` only it
//! sets `BARRED`: writers and others that would be upgradable set `ASLEEP`, and bar no reader.
//!
//! # The race of halt and release
//!
//! ```text
//!   waiter                                 release, or what else makes room
//!   CAS word: BARRED or ASLEEP set,        RMW word: the holder is gone
//!             still no room
//!   ok: halt while the word is so          found the bit: kick its class
//!   failed: look again                     else: the waiter's CAS fails
//! ```
//!
//! Both change one word, so one comes first. If the release does, the waiter's CAS fails, and the
//! waiter finds room. If the CAS does, the release finds the bit.
//!
//! A fair release kicks before it releases, and reserves the lock only if that has ended a halt.
//!
//! # Invariants
//!
//! * R1: `W` and `C` are entered only from a word that is not held, or by the upgradable reader
//!   when it is the last. A reader enters only from a word that is not written, and `u` only one
//!   that has none.
//! * R2: if a writer has halted, then `BARRED` is set, or `ASLEEP` is set beside a `u`, or a writer
//!   that was kicked has yet to take the lock (it sets `BARRED` then), to halt again, or to give up
//!   (it passes the kick on). The same holds of those that would be upgradable, with `ASLEEP`.
//! * R3: if a reader has halted and no kick for it is due, then `ASLEEP` is set, and the lock is
//!   written or barred.
//! * R4: each change after which a class that R2 or R3 speaks of has room kicks it: all readers, or
//!   one of the others.
//! * R5: after its read-modify-write, a release uses only the address of the word (F4).
//! * R6: `BARRED` beside a `u` is set only by the CPU that upgrades, and cleared when it gives up.
//! * R7: `FIRST` is set only beside `BARRED`, and never beside a `u`. A writer halts as one that
//!   goes first only while it is set, and whoever clears it kicks all those.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | R-O1 | every CAS that takes the lock, or upgrades | Acquire | R-O2: a reader sees what the writer before it did, a writer what all readers before it did |
//! | R-O2 | every release and downgrade | Release | R-O1 |
//! | R-O3 | the CAS before a halt | Release | R-O4: the table entry is visible to a CPU that saw the bit |
//! | R-O4 | fence before a kick (`park.rs`) | Acquire | R-O3 |
//!
//! Only read-modify-writes change the word, so each continues the release sequences of those before
//! it: a writer's CAS synchronises with every reader that has left.
//!
//! # Bounds
//!
//! *Writers.* While `BARRED` is set, a plain reader enters only if it tries and finds the lock
//! free, or if the lock has lain free for [`reserved_ns`](crate::platform::Costs::reserved_ns). A
//! writer sets it when it halts, and once more when it is back. Only a writer's release, or a
//! writer that gives up, takes it away, and kicks a writer: until that one is back, any reader
//! enters. Those that read already ([`lock_shared_recursive`](RawRwLock::lock_shared_recursive))
//! pass without a bound: the writer may wait for them. *Readers.* A reader that has halted four
//! times and finds a writer again claims the next turn for all readers: no writer takes it, unless
//! no reader comes within `reserved_ns`. *Writers among themselves.* They are kicked in the order
//! in which they have halted. One that has waited for
//! [`outside_wakes`](crate::platform::Costs::outside_wakes), 5 ms on threads, when it is kicked and
//! finds the lock taken, goes first from then on: as long as it comes within `reserved_ns`, only
//! writers that were awake already and attempts pass it, and turns of readers. *Fair releases* of a
//! writer ([`unlock_fair`](RawRwLock::unlock_fair)): all readers that have halted are next, or if
//! there is none, a writer that has. Readers have nothing to hand over.
//!
//! *Stopped waiters.* One that is stopped for ever keeps a free lock from others for `reserved_ns`,
//! once, and bars no reader after that. If it had been kicked, others of its class that have halted
//! look by themselves: after 25 times that time, and then whenever they have waited four times as
//! long.
//!
//! # Limits
//!
//! * A thread that reads twice, the second time not recursively, waits for ever if a writer waits.
//! * 2^28 - 3 CPUs can read at a time. One more panics, or fails if it does not wait for ever.
//! * Where CPUs do not halt, the other side is barred by the first look that fails.
//!
//! # Sources
//!
//! The classes of waiters and the chain of kicks from writer to writer: Rust's standard library,
//! `sys/sync/rwlock/futex.rs` (1.95). The upgradable reader, which excludes its like, and when it
//! bars others: `parking_lot` 0.12. Alternating turns: B. Brandenburg, J. Anderson, "Spin-Based
//! Reader-Writer Synchronization for Multiprocessor Real-Time Systems", Real-Time Systems 2010.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{RawLock, RawTimedLock};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::park;
use crate::platform::Platform;
use crate::raw::word::read_write::{Kicks, Pass, READER, RwWord, Want, cas, update};

mod wait;

/// A lock for many readers or one writer. See the [module documentation](self).
///
/// As a [`RawLock`] it is held for writing. Any CPU can release it for the one that has taken it.
#[repr(C)]
pub struct RawRwLock<P: Platform, C: Class = Uncounted> {
    word: P::Word,
    class: PhantomData<C>,
}

/// Why a wait ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The deadline has passed.
    Late,
    /// As many CPUs read as can.
    Full,
}

/// The verbs of one way to take the lock.
macro_rules! verbs {
    ($want:expr, $pass:expr, $(#[$doc:meta])* $lock:ident, $try_lock:ident, $until:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $lock(&self) {
            if !self.try_once($want, $pass) {
                self.must(self.lock_slow($want, $pass, None));
            }
        }

        /// The same, if it is possible without waiting. Returns whether it took the lock.
        #[inline]
        #[must_use = "if this returns true, the lock must be released"]
        pub fn $try_lock(&self) -> bool {
            self.try_take($want, if let Pass::All = $pass { Pass::All } else { Pass::Late })
        }

        /// The same, if it is possible before the platform's clock reads `deadline_ns`. Returns
        /// whether it took the lock. It returns false earlier if [as many read as
        /// can](Self::is_full).
        #[must_use = "if this returns true, the lock must be released"]
        pub fn $until(&self, deadline_ns: u64) -> bool {
            self.try_take($want, $pass) || self.lock_slow($want, $pass, Some(deadline_ns)).is_ok()
        }
    };
}

impl<P: Platform, C: Class> RawRwLock<P, C> {
    /// How many CPUs can hold the lock for reading at a time.
    pub const READERS_MAX: u32 = RwWord::READERS_MAX;

    /// An unlocked lock in a cell, for platforms whose cells can't be constants.
    ///
    /// # Safety
    /// The cell holds zero. Other values stand for holders or waiters that do not exist.
    pub const unsafe fn with(word: P::Word) -> Self {
        Self { word, class: PhantomData }
    }

    #[inline(always)]
    fn look(&self) -> RwWord {
        RwWord::new(self.word.load(Relaxed))
    }

    /// Takes the lock if it has room, and no other CPU comes between.
    #[inline(always)]
    fn try_once(&self, want: Want, pass: Pass) -> bool {
        let seen = self.look();
        match seen.read_at_once() {
            // ORDERING: Acquire, R-O1. (n,0,0) -> (n+1,0,0)
            Some(new) if want == Want::Read => cas(&self.word, seen, new, Acquire).is_ok(),
            _ => self.try_take(want, pass),
        }
    }

    #[inline]
    fn try_take(&self, want: Want, pass: Pass) -> bool {
        // ORDERING: Acquire, R-O1.
        let kicks = update(&self.word, Acquire, |seen| seen.taken(want, pass));
        if let Some(kicks) = kicks {
            self.kick(kicks);
        }
        kicks.is_some()
    }

    /// Ends an acquisition that has no deadline.
    #[inline]
    fn must(&self, taken: Result<(), Refused>) {
        assert!(taken.is_ok(), "too many readers of a read-write lock");
    }

    verbs! {
        Want::Read, Pass::Waiting,
        /// Waits until no writer holds the lock, or has waited for it, and takes it for reading.
        lock_shared, try_lock_shared, try_lock_shared_until
    }

    verbs! {
        Want::Read, Pass::All,
        /// Takes the lock for reading as soon as no writer holds it, past writers that wait: for a
        /// thread that may be reading already, for which such a writer waits. If it is, it does not
        /// wait.
        lock_shared_recursive, try_lock_shared_recursive, try_lock_shared_recursive_until
    }

    verbs! {
        Want::Upgradable, Pass::Waiting,
        /// [`lock_shared`](Self::lock_shared) with the right to [upgrade](Self::upgrade), which one
        /// reader at a time can have.
        lock_upgradable, try_lock_upgradable, try_lock_upgradable_until
    }

    /// Takes the lock for reading, if that passes no waiter whose turn it is. Returns whether it
    /// took the lock.
    #[doc(hidden)]
    #[inline]
    pub fn try_lock_shared_in_turn(&self) -> bool {
        self.try_take(Want::Read, Pass::Waiting)
    }

    /// Takes the lock for writing, if that passes no waiter whose turn it is. Returns whether it
    /// took the lock.
    #[doc(hidden)]
    #[inline]
    pub fn try_lock_in_turn(&self) -> bool {
        self.try_take(Want::Write, Pass::Waiting)
    }

    /// Releases the lock, held for reading.
    ///
    /// # Safety
    /// The lock is held for reading.
    #[inline]
    pub unsafe fn unlock_shared(&self) {
        let address = &raw const self.word;
        // ORDERING: Release, R-O2. (n,b,a) -> (n-1,b,a). The word is not touched again (R5).
        let before = self.word.fetch_sub(READER, Release);
        let kicks = RwWord::new(before).left_by_reader();
        if P::WAITS && kicks != Kicks::NONE {
            Self::kick_at(address, kicks);
        }
    }

    /// Changes the word to what `new` makes of it, and kicks those that this lets in.
    fn release(&self, new: impl Fn(RwWord) -> (RwWord, Kicks)) {
        let address = &raw const self.word;
        // ORDERING: Release, R-O2. The word is not touched again (R5).
        let kicks = update(&self.word, Release, |seen| Some(new(seen)));
        Self::kick_at(address, kicks.unwrap_or(Kicks::NONE));
    }

    /// Releases the lock, held as upgradable.
    ///
    /// # Safety
    /// The lock is held as upgradable.
    pub unsafe fn unlock_upgradable(&self) {
        self.release(RwWord::left_by_upgradable);
    }

    /// The release of a writer, where others may wait.
    #[cold]
    #[inline(never)]
    fn leave_waiters(&self) {
        self.release(RwWord::left_by_writer);
    }

    /// Waits until no other CPU reads, and takes the lock, held as upgradable, for writing. Others
    /// that want to read wait meanwhile.
    ///
    /// # Safety
    /// The lock is held as upgradable.
    #[inline]
    pub unsafe fn upgrade(&self) {
        if !self.try_take(Want::Upgrade, Pass::Waiting) {
            self.must(self.lock_slow(Want::Upgrade, Pass::Waiting, None));
        }
    }

    /// [`upgrade`](Self::upgrade), if it is possible without waiting. Otherwise the lock stays held
    /// as upgradable.
    ///
    /// # Safety
    /// The lock is held as upgradable.
    #[inline]
    #[must_use = "it says for what the lock is held"]
    pub unsafe fn try_upgrade(&self) -> bool {
        self.try_take(Want::Upgrade, Pass::Waiting)
    }

    /// [`upgrade`](Self::upgrade), if it is possible before the deadline. Otherwise the lock stays
    /// held as upgradable.
    ///
    /// # Safety
    /// The lock is held as upgradable.
    #[must_use = "it says for what the lock is held"]
    pub unsafe fn try_upgrade_until(&self, deadline_ns: u64) -> bool {
        self.try_take(Want::Upgrade, Pass::Waiting)
            || self.lock_slow(Want::Upgrade, Pass::Waiting, Some(deadline_ns)).is_ok()
    }

    /// Goes on reading, without writing: others may read, too.
    ///
    /// # Safety
    /// The lock is held for writing.
    pub unsafe fn downgrade(&self) {
        self.release(|seen| seen.downgraded(Want::Write, Want::Read));
    }

    /// Goes on as the upgradable reader, without writing: others may read, too.
    ///
    /// # Safety
    /// The lock is held for writing.
    pub unsafe fn downgrade_to_upgradable(&self) {
        self.release(|seen| seen.downgraded(Want::Write, Want::Upgradable));
    }

    /// Goes on reading, without the right to upgrade.
    ///
    /// # Safety
    /// The lock is held as upgradable.
    pub unsafe fn downgrade_upgradable(&self) {
        self.release(|seen| seen.downgraded(Want::Upgradable, Want::Read));
    }

    /// [`unlock`](RawLock::unlock), so that a waiter that has halted is the next to take the lock,
    /// if there is one, or all readers that have.
    ///
    /// # Safety
    /// The lock is held for writing.
    pub unsafe fn unlock_fair(&self) {
        // (W,b,1,0) -> (C,b,1,0), or (W,1,0,0) -> (W,1,0,1). It kicks before the release, after
        // which the lock may be gone (R5): only those that are awake find their turn for certain.
        // If they halt again meanwhile, they do as those whose turn it is, whom the release kicks.
        let takes_turn = |want| {
            let kicks = update(&self.word, Relaxed, |seen| seen.handed_over(want));
            kicks.is_some_and(|kicks| self.kick(kicks))
        };
        let is_theirs =
            self.look().is_claimed() || takes_turn(Want::Read) || takes_turn(Want::Write);
        self.release(if is_theirs { RwWord::left_by_writer } else { RwWord::left_to_all });
    }

    fn kick(&self, kicks: Kicks) -> bool {
        Self::kick_at(&raw const self.word, kicks)
    }

    /// Kicks waiters, and returns whether there was one. Only the address of the word is used (R5).
    fn kick_at(word: *const P::Word, kicks: Kicks) -> bool {
        if !P::WAITS || kicks == Kicks::NONE || !P::waits() {
            return false;
        }
        C::count(Event::PvKickUnlock);
        // The R-O4 fence is in there.
        let mut has_kicked = false;
        for want in [Want::Upgrade, Want::Write, Want::Upgradable, Want::Read] {
            if kicks.include(want) {
                let all = matches!(want, Want::Upgrade | Want::Read);
                let unpark = if all { park::unpark_all::<P> } else { park::unpark_one::<P> };
                has_kicked |= unpark(word, want.class());
            }
        }
        has_kicked
    }

    /// Removes all waiters: for a forked child, which has none of the threads that waited. Who
    /// holds the lock, and for what, stays as it was.
    ///
    /// No CPU may wait for this lock, or begin to before this returns: it might not be kicked.
    pub fn without_waiters(&self) {
        let _ = update(&self.word, Relaxed, |seen| Some((seen.without_waiters(), ())));
    }

    /// Whether a CPU holds the lock for reading or writing. The answer may be out of date by the
    /// time it is returned.
    pub fn is_locked_at_all(&self) -> bool {
        !self.look().is_free()
    }

    /// Whether [as many CPUs as can](Self::READERS_MAX) hold the lock for reading.
    pub fn is_full(&self) -> bool {
        self.look().is_full()
    }
}

// SAFETY: R1; R-O1 and R-O2 order the critical sections.
unsafe impl<P: Platform, C: Class> RawLock for RawRwLock<P, C> {
    #[inline]
    fn lock(&self) {
        // ORDERING: Acquire, R-O1. (0,0,0) -> (W,0,0)
        if cas(&self.word, RwWord::FREE, RwWord::WRITTEN, Acquire).is_err() {
            self.must(self.lock_slow(Want::Write, Pass::Waiting, None));
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_take(Want::Write, Pass::Late)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // ORDERING: Release, R-O2. (W,0,0) -> (0,0,0). The word is not touched again (R5).
        if cas(&self.word, RwWord::WRITTEN, RwWord::FREE, Release).is_err() {
            self.leave_waiters();
        }
    }

    fn is_locked(&self) -> bool {
        self.look().is_written()
    }
}

// SAFETY: as for `RawLock`.
unsafe impl<P: Platform, C: Class> RawTimedLock for RawRwLock<P, C> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        self.try_take(Want::Write, Pass::Waiting)
            || self.lock_slow(Want::Write, Pass::Waiting, Some(deadline_ns)).is_ok()
    }

    #[inline]
    fn now_ns() -> u64 {
        P::now_ns()
    }
}

faces!(
    RawRwLock<P: Platform, C: Class> called "RawRwLock",
    where P::Word: u32; P::Word::ZERO
);
