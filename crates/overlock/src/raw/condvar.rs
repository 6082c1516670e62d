//! `RawCondvar`: waiting for a condition that a lock protects.
//!
//! A condition variable counts its waiters. It has no list of them and no place for one of them, so
//! any number of CPUs can wait, with or without a number, in one process or in several that share
//! the memory.
//!
//! # State
//!
//! Waiters form groups. New waiters join the *open* group. A notification is for the *closed*
//! group; if all of its waiters have been notified, it closes the open group and opens another.
//! Groups before the closed one are *done*: all of their waiters have been notified.
//!
//! | word | |
//! |---|---|
//! | `list` | a lock, held for a few instructions around each change of the words below |
//! | `open` | the number of the open group; the one before it is the closed group |
//! | `waiting` | how many waiters of both groups have not been notified |
//! | `closed` | how many of these are in the closed group |
//! | `permits` | how many notifications of the closed group no waiter has taken |
//! | `gates` | two words that waiters halt on: a group's is chosen by the parity of its number |
//! | `generation` | the process whose waiters these are ([`Platform::generation`]) |
//!
//! A gate counts the notifications of its groups, and has a mark if a waiter may have halted there
//! (`word/condvar.rs`).
//!
//! # A wait
//!
//! ```text
//!   waiter                                   notifier
//!   (holds the lock)
//!   A  joins the open group: waiting += 1    takes the lock, after B
//!   B  releases the lock                     changes the condition
//!   C  halts while its gate is as at A       D  closes the group, if it must
//!   E  takes a permit, if its group is       F  waiting -= 1, closed -= 1, permits += 1,
//!      closed and has one, or leaves            gate += 1
//!      if its group is done; else C again    G  releases the list
//!   H  takes the lock                        I  kicks one CPU at the gate; all, if closed == 0
//! ```
//!
//! *No notification is lost.* A notifier that changed the condition after the waiter had looked has
//! taken the lock after B, so A happens before D, and F is for the waiter or for one before it. The
//! halt at C and the change at F are about one word: one comes first (`park.rs`).
//!
//! *No notification goes to a newcomer.* All waiters that may take a permit joined before the group
//! was closed, and so before each notification of the group. Without groups, a waiter that comes
//! after a notification could take it from one that it was for.
//!
//! *Each permit finds its waiter.* A permit comes with a kick of a CPU that has halted, if there is
//! one, and a CPU that is awake looks for a permit before it halts again. So there are never more
//! permits than waiters of the group that are awake or about to be kicked. The last permit of the
//! group comes with a kick of all: none is left to halt when its gate gets the next group, also if
//! an earlier kick is late, or hits a CPU of another group.
//!
//! *Deadlines.* A waiter whose deadline has passed takes a permit if its group has one, and returns
//! as notified. Otherwise it leaves the counts of its group, and no notification is for it.
//!
//! *Broadcasts.* `notify_all` makes both groups done and kicks all CPUs at both gates, by one call
//! each where the platform has one. No waiter's turn depends on that of another.
//!
//! # Pace
//!
//! A halt and its wake-up take longer than the answer of a CPU that runs. So a waiter spins for as
//! long as a halt costs, but only where that pays: one spin that meets its notification makes up
//! for some that do not, and where none does, few waits try (`word/condvar.rs`). No waiter yields:
//! a thread that has yielded is let in late when it is woken.
//!
//! # Invariants
//!
//! * V1: the counts change only under `list`, and a waiter reads its gate for the first time there.
//! * V2: `closed` is at most `waiting`; waiters of the closed group are `closed + permits`.
//! * V3: after it has released `list`, a notifier uses only addresses. So the waiter that returns
//!   last may free the condition variable.
//! * V4: who leaves by a panic of `release` leaves no count behind.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | V-O1 | the mark of a gate, by a waiter | Release | the fence of `park.rs`, by the notifier |
//!
//! Everything else is ordered by `list`, and what the condition is made of by the user's lock. The
//! look at `waiting` without `list` may miss only waiters that the caller need not notify: those
//! that did not join before the caller took, or last took, the user's lock.
//!
//! # Limits
//!
//! * Within a group, the platform chooses whom a kick wakes: on threads, who halted first.
//! * A waiter that is away from A to C for exactly 2^32 groups, or 2^31 notifications of its gate,
//!   sleeps on.
//! * A CPU that is taken away while it has the list holds up waiters and notifiers meanwhile.
//! * The waits of a vanished process count on where processes share a condition variable.
//!
//! # Sources
//!
//! Two groups, of which one closes: the condition variable of glibc 2.25 (T. Riegel). Its lost
//! wake-ups (sourceware.org bug 25847) came of waiters that take permits of another group, which
//! the lock around the counts rules out.

use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use super::word::condvar::{CLEARING, Gate, Pace};
use super::{RawLock, TestAndSet};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::park;
use crate::platform::Platform;
use crate::spin::Spin;

/// A condition variable without the lock it is used with. See the [module documentation](self).
#[repr(C)]
pub struct RawCondvar<P: Platform, C: Class = Uncounted> {
    // Without waiters, the first four are zero.
    list: TestAndSet<P>,
    waiting: P::Word,
    closed: P::Word,
    permits: P::Word,
    open: P::Word,
    gates: [P::Word; 2],
    // These take no part in the protocol, so they are no cells of the platform.
    generation: AtomicU32,
    /// A [`Pace`].
    pace: AtomicU32,
    class: PhantomData<C>,
}

/// What a waiter finds under the list.
enum Found {
    /// A notification, which is now taken.
    Permit,
    /// None: its gate, which changes with the next.
    Nothing(Gate),
    /// None, and it has left its group.
    Left,
}

/// A waiter that leaves its group if it is dropped.
struct Joined<'a, P: Platform, C: Class> {
    condvar: &'a RawCondvar<P, C>,
    group: u32,
}

impl<P: Platform, C: Class> Drop for Joined<'_, P, C> {
    fn drop(&mut self) {
        if let Found::Permit = self.condvar.look(self.group, true) {
            self.condvar.notify_one();
        }
    }
}

impl<P: Platform, C: Class> RawCondvar<P, C> {
    /// A condition variable in cells, for platforms whose cells can't be constants.
    ///
    /// # Safety
    /// Each cell holds zero, but `gates` may hold any even number, and `open` any.
    pub const unsafe fn with(
        list: P::Word,
        gates: [P::Word; 2],
        open: P::Word,
        waiting: P::Word,
        closed: P::Word,
        permits: P::Word,
    ) -> Self {
        // SAFETY: the caller's.
        let list = unsafe { TestAndSet::with(list) };
        let [generation, pace] = [const { AtomicU32::new(0) }; 2];
        let class = PhantomData;
        Self { list, waiting, closed, permits, open, gates, generation, pace, class }
    }

    /// Releases `lock`, waits until notified, and takes the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn wait<L: RawLock>(&self, lock: &L) {
        // SAFETY: the caller's.
        unsafe { self.wait_until(lock, None) };
    }

    /// [`wait`](Self::wait), but no longer than until the platform's clock reads `deadline_ns`.
    /// Returns false if the deadline passed first; a notification has then gone to another waiter.
    /// The lock is taken however long that takes.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn wait_until<L: RawLock>(&self, lock: &L, deadline_ns: Option<u64>) -> bool {
        // SAFETY: the caller holds the lock until here.
        self.wait_between(deadline_ns, || unsafe { lock.unlock() }, || lock.lock())
    }

    /// [`wait_until`](Self::wait_until), within `timeout`. Where the clock stands still, it waits
    /// until notified.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn wait_for<L: RawLock>(&self, lock: &L, timeout: Duration) -> bool {
        // SAFETY: the caller's.
        unsafe { self.wait_until(lock, Some(P::after(timeout))) }
    }

    /// [`wait_until`](Self::wait_until), for a lock of any kind: `release` releases it, and `take`
    /// takes it again. If `release` panics, the wait is over.
    pub fn wait_between(
        &self,
        deadline_ns: Option<u64>,
        release: impl FnOnce(),
        take: impl FnOnce(),
    ) -> bool {
        let (group, gate) = self.join();
        let joined = Joined { condvar: self, group };
        release();
        mem::forget(joined);
        let is_awake = self.spin(group, gate);
        let notified = self.sleep(group, gate, deadline_ns);
        // Who notifies often holds the lock, and loses its processor to the one that it wakes.
        if is_awake {
            take()
        } else {
            P::without_spinning(take)
        };
        notified
    }

    /// Joins the open group. Returns its number, and its gate.
    fn join(&self) -> (u32, Gate) {
        self.with_list(|| {
            add(&self.waiting, 1);
            let group = get(&self.open);
            (group, Gate::new(get(self.gate(group))))
        })
    }

    /// Waits until notified, and returns true; or until the deadline, and then has left its group.
    fn sleep(&self, group: u32, mut seen: Gate, deadline_ns: Option<u64>) -> bool {
        loop {
            let late = deadline_ns.is_some_and(|at| P::now_ns() >= at);
            if late || self.has_changed(group, seen) {
                match self.look(group, late) {
                    Found::Permit => return true,
                    Found::Left => {
                        C::count(Event::LockTimeout);
                        return false;
                    }
                    Found::Nothing(now) => seen = now,
                }
            }
            self.halt(self.gate(group), seen, deadline_ns);
        }
    }

    /// Whether the group's gate has changed since it was seen.
    fn has_changed(&self, group: u32, seen: Gate) -> bool {
        Gate::new(get(self.gate(group))).halted() != seen.halted()
    }

    /// Waits for a change of the group's gate for as long as a halt would cost, if that has paid.
    /// Returns whether there was one.
    fn spin(&self, group: u32, seen: Gate) -> bool {
        if !P::WAITS || !P::waits() {
            return false;
        }
        let pace = Pace::new(self.pace.load(Relaxed));
        let next = pace.skipped().unwrap_or_else(|| {
            let costs = P::costs();
            let mut spin = Spin::new(costs, costs.spin_ns());
            while !self.has_changed(group, seen) {
                if !spin.goes_on::<P>() {
                    return pace.after(false);
                }
            }
            pace.after(true)
        });
        self.pace.store(next.bits(), Relaxed);
        self.has_changed(group, seen)
    }

    fn halt(&self, gate: &P::Word, seen: Gate, deadline_ns: Option<u64>) {
        if !P::WAITS || !P::waits() {
            return P::relax();
        }
        C::count(Event::PvWaitNode);
        let halted = seen.halted().bits();
        let mark = |from| {
            // ORDERING: Release, V-O1.
            gate.compare_exchange(from, halted, Release, Relaxed).is_ok()
        };
        // An RMW also if another waiter has set the mark.
        park::park::<P>(gate, park::Class::ONLY, deadline_ns, || {
            (mark(seen.awake().bits()) || mark(halted)).then_some(halted)
        });
    }

    /// Looks for a notification for a waiter of `group`, which otherwise `leaves` or goes on.
    fn look(&self, group: u32, leaves: bool) -> Found {
        self.with_list(|| match get(&self.open).wrapping_sub(group) {
            1 if get(&self.permits) > 0 => {
                add(&self.permits, 1_u32.wrapping_neg());
                Found::Permit
            }
            age @ 0..=1 if leaves => {
                add(&self.closed, age.wrapping_neg());
                add(&self.waiting, 1_u32.wrapping_neg());
                Found::Left
            }
            0..=1 => Found::Nothing(Gate::new(get(self.gate(group)))),
            _ => Found::Permit,
        })
    }

    fn gate(&self, group: u32) -> &P::Word {
        &self.gates[group as usize % 2]
    }

    fn with_list<T>(&self, change: impl FnOnce() -> T) -> T {
        let now = P::generation();
        // ORDERING: Acquire, with the Release in `renew`.
        if self.generation.load(Acquire) != now {
            self.renew(now);
        }
        self.list.lock();
        let result = change();
        // SAFETY: taken above.
        unsafe { self.list.unlock() };
        result
    }

    /// Forgets the waiters of the process that this one was forked from, and that one had the list.
    #[cold]
    fn renew(&self, now: u32) {
        let clearing = now | CLEARING;
        let seen = self.generation.load(Relaxed);
        let is_other = seen != now && seen != clearing;
        if is_other && self.generation.compare_exchange(seen, clearing, Relaxed, Relaxed).is_ok() {
            // A waiter whose signal handler has forked goes on, as if it had been notified.
            self.finish();
            if self.list.is_locked() {
                // SAFETY: the CPU that had it is gone, and others wait below.
                unsafe { self.list.unlock() };
            }
            // ORDERING: Release, with the Acquires here and in `with_list`: all is cleared.
            self.generation.store(now, Release);
            for gate in &self.gates {
                park::unpark_all::<P>(gate, park::Class::ONLY);
            }
        }
        // ORDERING: Acquire, with the Release above.
        while self.generation.load(Acquire) == clearing {
            P::relax();
        }
    }

    /// Makes both groups done. Returns at which gates CPUs may have halted.
    fn finish(&self) -> [bool; 2] {
        add(&self.open, 2);
        for count in [&self.waiting, &self.closed, &self.permits] {
            count.store(0, Relaxed);
        }
        self.gates.each_ref().map(|gate| turn(gate, true))
    }

    /// Whether waiters wait that have not been notified. The answer may be out of date by the time
    /// it is returned.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        get(&self.waiting) != 0 && self.generation.load(Relaxed) == P::generation()
    }

    /// Wakes a waiter of those that have waited longest. Returns whether there was one.
    ///
    /// The caller has changed the condition under the lock; it need not hold the lock any more.
    pub fn notify_one(&self) -> bool {
        if get(&self.waiting) == 0 {
            return false;
        }
        let granted = self.with_list(|| {
            let waiting = get(&self.waiting);
            if waiting == 0 {
                return None;
            }
            if get(&self.closed) == 0 {
                add(&self.open, 1);
                self.closed.store(waiting, Relaxed);
                self.permits.store(0, Relaxed);
            }
            let left = get(&self.closed) - 1;
            self.closed.store(left, Relaxed);
            self.waiting.store(waiting - 1, Relaxed);
            add(&self.permits, 1);
            let gate = self.gate(get(&self.open).wrapping_sub(1));
            Some((&raw const *gate, left == 0, turn(gate, left == 0)))
        });
        // The condition variable may be gone from here on (V3).
        if let Some((gate, all, true)) = granted {
            C::count(Event::PvKickUnlock);
            if all {
                park::unpark_all::<P>(gate, park::Class::ONLY)
            } else {
                park::unpark_one::<P>(gate, park::Class::ONLY)
            };
        }
        granted.is_some()
    }

    /// Wakes all waiters. Returns how many there were.
    ///
    /// The caller has changed the condition under the lock; it need not hold the lock any more.
    pub fn notify_all(&self) -> usize {
        if get(&self.waiting) == 0 {
            return 0;
        }
        let gates = self.gates.each_ref().map(|gate| &raw const *gate);
        let (count, halts) = self.with_list(|| match get(&self.waiting) {
            0 => (0, [false; 2]),
            count => (count as usize, self.finish()),
        });
        // The condition variable may be gone from here on (V3).
        for (gate, _) in gates.into_iter().zip(halts).filter(|(_, halts)| *halts) {
            C::count(Event::PvKickUnlock);
            park::unpark_all::<P>(gate, park::Class::ONLY);
        }
        count
    }
}

#[track_caller]
fn get<W: Atomic<u32>>(word: &W) -> u32 {
    word.load(Relaxed)
}

/// Adds to a word that only the CPU with the list changes.
#[track_caller]
fn add<W: Atomic<u32>>(word: &W, more: u32) {
    word.store(get(word).wrapping_add(more), Relaxed);
}

/// Counts a notification at a gate. Returns whether a CPU may have halted there; if `all` are
/// kicked, none has any more.
fn turn<W: Atomic<u32>>(gate: &W, all: bool) -> bool {
    let before = Gate::new(gate.fetch_add(Gate::ONE.bits(), Relaxed));
    if all {
        // No waiter sets the mark meanwhile: it would have seen this value under the list.
        gate.store(before.turned().awake().bits(), Relaxed);
    }
    before.has_halted()
}

impl<P: Platform, C: Class> RawCondvar<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    /// A condition variable without waiters. All its bytes are zero.
    pub const fn new() -> Self {
        let gates = [P::Word::ZERO, P::Word::ZERO];
        // SAFETY: `ConstAtomic::ZERO` holds zero.
        unsafe {
            Self::with(
                P::Word::ZERO,
                gates,
                P::Word::ZERO,
                P::Word::ZERO,
                P::Word::ZERO,
                P::Word::ZERO,
            )
        }
    }
}

impl<P: Platform, C: Class> Default for RawCondvar<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, C: Class> fmt::Debug for RawCondvar<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCondvar").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests;
