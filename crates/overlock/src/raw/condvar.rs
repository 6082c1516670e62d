// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RawCondvar`: waiting for a condition that a lock protects.
//!
//! A waiter leaves its name in a list before it releases the lock, and halts on a word of its own
//! node. A notification takes a name off the list and kicks that CPU. There is no sequence number
//! and there are no groups of waiters, so none can be lost between two of them: a notification is
//! for one waiter, by name, from the moment it is taken off the list.
//!
//! # State
//!
//! Two words: `ends`, the codes of the first and the last node of the list, and a lock that is held
//! for a few instructions, around each change of the list. A node on the list is linked both ways,
//! by codes. Its `state`:
//!
//! ```text
//!            notified: off the list       the condition variable is left alone
//!   WAITING -----------------------> PICKED ---------------------------> NOTIFIED
//!      | deadline: takes itself off the list
//!      v
//!     leaves
//! ```
//!
//! `PICKED` and `NOTIFIED` differ so that a waiter stays until the CPU that notifies it has
//! released the list: only then the condition variable may be freed.
//!
//! # A wait
//!
//! ```text
//!   waiter                                 notifier
//!   (holds the lock)
//!   A  joins the list                      takes the lock, after B
//!   B  releases the lock                   changes the condition
//!   C  halts while its state is not        D  takes the waiter off: PICKED
//!      NOTIFIED                            E  releases the list
//!   F  leaves; takes the lock              G  state = NOTIFIED
//!                                          H  kicks the waiter
//! ```
//!
//! *No notification is lost.* A notifier that changed the condition after the waiter had looked has
//! taken the lock after B, so A happens before D, and D finds the waiter, or an earlier one. G and
//! the halt at C are about one word: either the halt sees `NOTIFIED`, or G comes after the halt has
//! compared, and the kick that follows G ends it (P3).
//!
//! *Deadlines.* A waiter whose deadline has passed takes the list. If it is still on it, it takes
//! itself off, and no notification is for it. If it is not, one is: it waits for G, which is some
//! instructions away, and returns as notified. So no notification goes to a waiter that reports a
//! time-out.
//!
//! # No stampede
//!
//! `notify_all` takes the whole list, makes two chains of it, of every second waiter each, and
//! kicks only the first of each. Every notified waiter kicks the next one of its chain as soon as
//! it runs, before it comes for the lock. So no more waiters are awake than have found a processor,
//! the next one wakes up while those before it are in their sections, and no section is longer for
//! a kick. One chain would have a processor idle for the wake-up latency of each waiter:
//!
//! ```text
//!   notify_all                 first                 second                third
//!   all are PICKED
//!   last .. first: NOTIFIED
//!   kicks the first, second    kicks the third       kicks the fourth
//!                              takes the lock                              kicks the fifth
//!                              releases the lock     takes the lock
//! ```
//!
//! A waiter in the middle that wakes up early (P2) or at its deadline finds `NOTIFIED` and leaves;
//! it kicks its own successor in the chain, and the kick of its predecessor hits a CPU that does
//! not wait for it, which is harmless (P4). The states are changed from the last to the first, so a
//! waiter that can leave has a successor that is `NOTIFIED` already, and the kick comes after the
//! change. So each waiter that was picked is kicked after its state has changed, or is awake.
//!
//! # Pace
//!
//! A waiter spins for as long as a halt would cost it, and yields its processor at each reading of
//! the clock: the CPU that is to notify it may need that very processor. For the same reason a
//! notified waiter that finds the lock held yields some times before it waits for the lock in
//! earnest: the holder is often the notifier, whose place it has taken.
//!
//! Where strangers compute ([`Platform::has_strangers`]), it halts at once and does not yield.
//!
//! # Invariants
//!
//! * V1: the list, its links and its nodes' states change only under its lock, except
//!   `PICKED -> NOTIFIED` and the link to the next of a chain, by the CPU that took the node off.
//! * V2: a node is reused only after its CPU has seen `NOTIFIED`, or has taken it off itself.
//! * V3: after its release of the list, a notifier uses only nodes, which live for ever.
//! * V4: each waiter that has seen `NOTIFIED` kicks the node that its `next` names.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | V-O1 | `NOTIFIED`, by the notifier | Release | V-O2: the waiter's `next` was written before, and no other CPU uses the node any more |
//! | V-O2 | the waiter's look at its state | Acquire | V-O1 |
//!
//! Everything else is ordered by the list's lock, and what the condition is made of by the user's.
//! The look at `ends` without the lock may miss only waiters that the caller need not notify: those
//! that did not join before the caller took, or last took, the user's lock.
//!
//! # Limits
//!
//! * A CPU without a number or a free node does not join: it releases the lock, naps, takes the
//!   lock, and returns as if it had been notified, which a caller's loop bears. So does every CPU
//!   where CPUs have no numbers.
//! * A condition variable has to outlive the waits on it, not only their notifications, where the
//!   process forks: until `wait` returns, the waiter's trace names it.
//! * A fork while a notifier looks at a list that another has just emptied leaves the list held in
//!   the child.
//! * A CPU that is taken away while it has the list, or between D and G, holds waiters and
//!   notifiers up until it is back.
//!
//! # Sources
//!
//! Condition variables with a list of waiters: A. Birrell, "Implementing Condition Variables with
//! Semaphores", 2003. Waking each waiter by the one before it does what `FUTEX_REQUEUE` is for,
//! with any lock. Lost notifications between groups of waiters: sourceware.org bug 25847.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use super::{RawLock, TestAndSet};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::entered::Entered;
use crate::platform::Platform;
use crate::slot::{Care, Node, NodeId, NodeState, step};
use crate::spin::{Spin, may_yield};
use crate::waiters::NAP_NS;

/// How often a notified waiter yields while the lock is held. Any value is correct.
const YIELDS: u32 = 8;

/// A condition variable without the lock it is used with. See the [module documentation](self).
pub struct RawCondvar<P: Platform, C: Class = Uncounted> {
    list: TestAndSet<P>,
    ends: P::Word,
    class: PhantomData<C>,
}

/// The first and the last node of a list.
#[derive(Clone, Copy)]
struct Ends {
    first: NodeId,
    last: NodeId,
}

impl Ends {
    const fn new(word: u32) -> Option<Self> {
        match (NodeId::decode(word as u16 as u32), NodeId::decode(word >> 16)) {
            (Some(first), Some(last)) => Some(Self { first, last }),
            _ => None,
        }
    }

    const fn word(self) -> u32 {
        self.first.code() | self.last.code() << 16
    }
}

/// The code of a node, or zero.
fn code(node: Option<NodeId>) -> u32 {
    node.map_or(0, NodeId::code)
}

impl<P: Platform, C: Class> RawCondvar<P, C> {
    const CARE: &'static Care = &Care { mend: Self::mend, give_up: Self::give_up };

    /// A condition variable in two cells, for platforms whose cells can't be constants.
    ///
    /// # Safety
    /// Each cell holds zero.
    pub const unsafe fn with(list: P::Word, ends: P::Word) -> Self {
        // SAFETY: the caller's.
        let list = unsafe { TestAndSet::with(list) };
        Self { list, ends, class: PhantomData }
    }

    /// Releases `lock`, waits until notified, and takes the lock. It may also return without having
    /// been notified.
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
        let take = || {
            for _ in 0..YIELDS {
                if !may_yield::<P>() {
                    break;
                }
                if lock.try_lock() {
                    return;
                }
                C::count(Event::PvYield);
                P::yield_now();
            }
            lock.lock();
        };
        // SAFETY: the caller holds the lock until here.
        self.wait_between(deadline_ns, || unsafe { lock.unlock() }, take)
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
    /// takes it again.
    pub fn wait_between(
        &self,
        deadline_ns: Option<u64>,
        release: impl FnOnce(),
        take: impl FnOnce(),
    ) -> bool {
        let Some(entered) = Entered::<P>::new() else {
            C::count(Event::LockNoNode);
            release();
            P::nap(NAP_NS);
            take();
            return deadline_ns.is_none_or(|at| P::now_ns() < at);
        };
        entered.trace(self, Self::CARE);
        self.join(entered.id());
        entered.has_got_to(step::QUEUED);
        release();
        let notified = self.sleep(&entered, deadline_ns);
        // V4. The successor of a waiter that has left by itself is not its concern.
        let next = if notified { NodeId::decode(entered.node().next.load(Relaxed)) } else { None };
        if let Some(next) = next {
            Self::kick(next);
        }
        // Not before: without its trace, a wait that is thrown out would leave V4 undone.
        drop(entered);
        take();
        notified
    }

    /// Waits until notified, and returns true; or until the deadline, and then has left the list.
    fn sleep(&self, entered: &Entered<P>, mut deadline_ns: Option<u64>) -> bool {
        let state = &entered.node().state;
        let mut spin = Spin::new(P::costs().spin_ns());
        let mut spins = P::WAITS && P::waits() && !P::has_strangers();
        loop {
            // ORDERING: Acquire, V-O2.
            let seen = state.load(Acquire);
            if seen == NodeState::NOTIFIED {
                entered.has_got_to(step::MOVING);
                return true;
            }
            if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                entered.has_got_to(step::MOVING);
                if self.leave(entered.id()) {
                    C::count(Event::LockTimeout);
                    return false;
                }
                entered.has_got_to(step::QUEUED);
                // The notification is on its way.
                deadline_ns = None;
            } else if spins {
                spins = spin.pause::<P>();
                if spins && spin.has_read_clock() && may_yield::<P>() {
                    C::count(Event::PvYield);
                    // The time away counts: the waiter comes back to a spin that may be over.
                    P::yield_now();
                    spins = !P::has_strangers();
                }
            } else if P::WAITS && P::waits() {
                C::count(Event::PvWaitNode);
                state.wait::<P>(seen, deadline_ns);
            } else {
                P::relax();
            }
        }
    }

    /// Kicks a waiter that is `NOTIFIED`, unless it has left.
    fn kick(waiter: NodeId) {
        C::count(Event::PvKickUnlock);
        waiter.node::<P>().state.kick::<P>(waiter.cpu());
    }

    /// Runs `change` with the list, and returns what it returns.
    fn with_list<T>(&self, change: impl FnOnce() -> T) -> T {
        self.list.lock();
        let result = change();
        // SAFETY: taken above.
        unsafe { self.list.unlock() };
        result
    }

    /// Whether waiters wait that have not been notified. The answer may be out of date by the time
    /// it is returned.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        self.ends().is_some()
    }

    fn ends(&self) -> Option<Ends> {
        Ends::new(self.ends.load(Relaxed))
    }

    /// Joins the end of the list.
    fn join(&self, me: NodeId) {
        let node = me.node::<P>();
        self.with_list(|| {
            let ends = self.ends();
            node.state.store(NodeState::COND_WAITING, Relaxed);
            node.next.store(0, Relaxed);
            node.before().store(code(ends.map(|ends| ends.last)), Relaxed);
            if let Some(ends) = ends {
                ends.last.node::<P>().next.store(me.code(), Relaxed);
            }
            let first = ends.map_or(me, |ends| ends.first);
            self.ends.store(Ends { first, last: me }.word(), Relaxed);
        });
    }

    /// Leaves the list. Returns false if a notification has taken this waiter off.
    fn leave(&self, me: NodeId) -> bool {
        let node = me.node::<P>();
        self.with_list(|| {
            let is_on = node.state.load(Relaxed) == NodeState::COND_WAITING;
            if is_on {
                self.unlink(node);
            }
            is_on
        })
    }

    /// Takes a node off the list.
    fn unlink(&self, node: &Node<P::Word>) {
        let before = NodeId::decode(node.before().load(Relaxed));
        let next = NodeId::decode(node.next.load(Relaxed));
        if let Some(before) = before {
            before.node::<P>().next.store(code(next), Relaxed);
        }
        if let Some(next) = next {
            next.node::<P>().before().store(code(before), Relaxed);
        }
        let Some(ends) = self.ends() else { return };
        let left = match (before, next) {
            (None, None) => 0,
            (None, Some(first)) => Ends { first, ..ends }.word(),
            (Some(last), None) => Ends { last, ..ends }.word(),
            (Some(_), Some(_)) => return,
        };
        self.ends.store(left, Relaxed);
    }

    /// Wakes the waiter that has waited longest. Returns whether there was one.
    ///
    /// The caller has changed the condition under the lock; it need not hold the lock any more.
    pub fn notify_one(&self) -> bool {
        if self.ends().is_none() {
            return false;
        }
        let first = self.with_list(|| {
            let first = self.ends()?.first;
            let node = first.node::<P>();
            self.unlink(node);
            node.next.store(0, Relaxed);
            node.state.store(NodeState::PICKED, Relaxed);
            Some(first)
        });
        if let Some(first) = first {
            // ORDERING: Release, V-O1. The condition variable may be gone from here on (V3).
            first.node::<P>().state.store(NodeState::NOTIFIED, Release);
            Self::kick(first);
        }
        first.is_some()
    }

    /// Notifies all waiters, which then wake each other up. Returns how many there were.
    ///
    /// The caller has changed the condition under the lock; it need not hold the lock any more.
    pub fn notify_all(&self) -> usize {
        if self.ends().is_none() {
            return 0;
        }
        let picked = self.with_list(|| {
            let ends = self.ends()?;
            self.ends.store(0, Relaxed);
            let mut count = 0;
            let mut next = Some(ends.first);
            while let Some(waiter) = next {
                let node = waiter.node::<P>();
                node.state.store(NodeState::PICKED, Relaxed);
                next = NodeId::decode(node.next.load(Relaxed));
                count += 1;
            }
            Some((ends, count))
        });
        let Some((ends, count)) = picked else { return 0 };
        let mut before = Some(ends.last);
        // The codes of the two nodes that come next.
        let mut next = [0; 2];
        while let Some(waiter) = before {
            let node = waiter.node::<P>();
            before = NodeId::decode(node.before().load(Relaxed));
            node.next.store(next[1], Relaxed);
            next = [waiter.code(), next[0]];
            // ORDERING: Release, V-O1. The condition variable may be gone after the first (V3).
            node.state.store(NodeState::NOTIFIED, Release);
        }
        next.into_iter().filter_map(NodeId::decode).for_each(Self::kick);
        count
    }

    /// Removes all waiters.
    ///
    /// # Safety
    /// The address is that of a live condition variable, which no other CPU uses at the same time.
    unsafe fn mend(condvar: *const ()) {
        // SAFETY: the caller's.
        let condvar = unsafe { &*condvar.cast::<Self>() };
        condvar.ends.store(0, Relaxed);
        if condvar.list.is_locked() {
            // SAFETY: the CPU that had it is gone.
            unsafe { condvar.list.unlock() };
        }
    }

    /// See [`GiveUp`](crate::slot::Care): the waiter passes its notification on.
    ///
    /// # Safety
    /// The address is that of a live condition variable. The waiter is one of this CPU, and never
    /// goes on.
    unsafe fn give_up(condvar: *const (), id: NodeId, got_to: u32) -> bool {
        if got_to != step::QUEUED {
            return false;
        }
        // SAFETY: the caller's.
        let condvar = unsafe { &*condvar.cast::<Self>() };
        let entered = Entered::<P>::again(id);
        let notified = !condvar.leave(id) && condvar.sleep(&entered, None);
        let next = NodeId::decode(id.node::<P>().next.load(Relaxed));
        if notified {
            match next {
                Some(next) => Self::kick(next),
                None => drop(condvar.notify_one()),
            }
        }
        true
    }
}

impl<P: Platform, C: Class> RawCondvar<P, C>
where
    P::Word: ConstAtomic<u32>,
{
    /// A condition variable without waiters. All its bytes are zero.
    pub const fn new() -> Self {
        // SAFETY: `ConstAtomic::ZERO` holds zero.
        unsafe { Self::with(P::Word::ZERO, P::Word::ZERO) }
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
