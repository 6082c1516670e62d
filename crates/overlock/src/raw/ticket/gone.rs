//! Tickets of waiters that are gone: in a forked child, and after a signal handler has jumped out
//! of a wait.
//!
//! A ticket can't be handed back. So the node of a waiter that was thrown out stays in the table
//! with the state `GIVEN_UP`, and one of two CPUs takes it from there by a CAS: the one that serves
//! the ticket, which releases it at once, or the waiter's own, if the ticket has been served
//! meanwhile without a look at the table.
//!
//! ```text
//!   own CPU                            release of the ticket before
//!   enter in the table
//!   state = GIVEN_UP
//!   head |= S                      A   head += 2                        B
//!   served? CAS state, release         S? CAS state, head += 2, again
//! ```
//!
//! A and B are read-modify-writes of one word. If A comes first, B sees `S` and finds the entry. If
//! B comes first, A finds the ticket served.
//!
//! A third CPU can come: one that released an equal ticket before the tickets went round, and lost
//! its processor before it looked into the table. The lock may be gone while it looks, but not
//! while the ticket is out. So whoever finds the entry takes it in hand, and then looks whether the
//! ticket is served. If not, it puts the entry back, and must look again if another CPU has asked
//! meanwhile:
//!
//! ```text
//!   GIVEN_UP -> IN_HAND    served? release : IN_HAND -> GIVEN_UP
//!   IN_HAND -> DUE         another CPU asks, and leaves it to the first
//!   DUE -> IN_HAND         the first looks again
//! ```

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{Slow, Ticket, Width};
use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::Class;
use crate::entered::Entered;
use crate::platform::Platform;
use crate::raw::word::ticket::{Head, ONE, after, rmw};
use crate::slot::{Care, NodeId, NodeState, State, step};
use crate::waiters::{self, Key};

impl<P: Platform, C: Class, W: Width> Ticket<P, C, W> {
    pub(super) const CARE: &'static Care = &Care { mend: Self::mend, give_up: Self::give_up };

    /// Removes the tickets of all waiters from a lock. The ticket being served stays: it belongs to
    /// the holder, or to a waiter that no longer exists.
    ///
    /// # Safety
    /// `lock` is a live lock of this type, and no other CPU uses it at the same time.
    unsafe fn mend(lock: *const ()) {
        // SAFETY: the caller guarantees that the lock is alive.
        let lock = unsafe { &*lock.cast::<Self>() };
        let served = lock.look().served();
        lock.head.store(W::cut(served), Relaxed);
        if W::bits(lock.tail.load(Relaxed)) != served {
            lock.tail.store(W::cut(after(served)), Relaxed);
        }
    }

    /// By how many tickets the numbers move on: more than there are CPUs with a number, or than
    /// tickets can be out.
    const MOVES: usize = W::TICKETS / if Self::ADDS { 4 } else { 2 };

    /// Whether `ticket`, which this CPU drew, is from before the numbers moved on (I7).
    pub(super) fn is_void(&self, ticket: u32) -> bool {
        self.distance(ticket) as usize >= W::TICKETS - Self::MOVES
    }

    /// A free lock in place of this one, whose tickets are all void: for a forked child.
    #[doc(hidden)]
    pub fn renewed(&self) -> Self
    where
        W::Cell<P>: ConstAtomic<W::Int>,
    {
        let next = W::cut(self.look().served().wrapping_add(Self::MOVES as u32 * ONE));
        let new = Self { head: W::Cell::<P>::ZERO, tail: W::Cell::<P>::ZERO, class: PhantomData };
        new.head.store(next, Relaxed);
        new.tail.store(next, Relaxed);
        new
    }

    /// Leaves the waiter's ticket to the CPU that serves it. Returns false if the waiter may not
    /// have drawn one yet, or no CPU would find it.
    ///
    /// # Safety
    /// `lock` is a live lock of this type. The waiter is one of this CPU, and never goes on.
    unsafe fn give_up(lock: *const (), id: NodeId, got_to: u32) -> bool {
        // SAFETY: the caller guarantees that the lock is alive.
        let lock = unsafe { &*lock.cast::<Self>() };
        step::ticket(got_to).is_some_and(|ticket| lock.give_ticket_up(ticket, id))
    }

    fn give_ticket_up(&self, ticket: u32, id: NodeId) -> bool {
        let key = Key::new(self, ticket);
        // The waiter may have entered itself.
        waiters::remove::<P>(key, id);
        if !waiters::insert::<P>(key, id) {
            return false;
        }
        let entered = Entered::<P>::again(id);
        let state = &entered.node().state;
        state.store(NodeState::ticket_given_up(ticket), Relaxed);
        match self.set_slow(ticket) {
            Slow::Set => entered.leave_given_up(),
            Slow::Unsure => return false,
            Slow::Served => {
                entered.leave_given_up();
                if let Some(head) = Self::skip(self, id, ticket).filter(|head| head.has_halted()) {
                    Self::kick(self, head);
                }
            }
        }
        true
    }

    /// `(t,h,s) -> (t,h+2,s)`: releases `ticket` if `lock` serves it and `waiter` gave it up.
    /// Returns the head before.
    pub(super) fn skip(lock: *const Self, waiter: NodeId, ticket: u32) -> Option<Head> {
        let node = waiter.node::<P>();
        if !node.is_for(lock) {
            return None;
        }
        let is_served = || {
            // The node may be for another lock since.
            // SAFETY: the ticket is out while this CPU has it in hand, so the lock is alive (I6).
            node.is_for(lock) && unsafe { &*lock }.look().served() == ticket
        };
        if !take_in_hand(&node.state, ticket, is_served) {
            return None;
        }
        waiters::remove::<P>(Key::new(lock, ticket), waiter);
        node.release();
        // SAFETY: the ticket is out, so the lock is alive (I6).
        let lock = unsafe { &*lock };
        // ORDERING: Release, O2.
        Some(Head::new(W::bits(lock.head.fetch_add(W::cut(rmw::RELEASE), Release))))
    }
}

/// Returns whether the caller is the one that has to release a ticket which was given up. If the
/// ticket is not served yet, the state is as before, and the CPU that serves it asks again.
fn take_in_hand<A: Atomic<u32>>(
    state: &State<A>,
    ticket: u32,
    mut is_served: impl FnMut() -> bool,
) -> bool {
    let given_up = NodeState::ticket_given_up(ticket);
    let in_hand = NodeState::ticket_in_hand(ticket);
    let due = NodeState::ticket_due(ticket);
    loop {
        let seen = state.load(Relaxed);
        let to = if seen == given_up { in_hand } else { due };
        if ![given_up, in_hand, due].contains(&seen) {
            return false;
        }
        // ORDERING: Acquire, for the node. Release, with the Acquire of the CPU that looks again,
        // which then sees the ticket served.
        if state.compare_exchange(seen, to, AcqRel).is_ok() {
            if to == due {
                return false;
            }
            break;
        }
    }
    while !is_served() {
        // ORDERING: Release, with the Acquire of the next CPU that takes it in hand.
        let is_back = state.compare_exchange(in_hand, given_up, Release).is_ok();
        // ORDERING: Acquire, with the Release of the CPU that found it in hand. There is no such
        // CPU where a signal handler forked here: the child's copy of the node is free.
        if is_back || state.compare_exchange(due, in_hand, Acquire).is_err() {
            return false;
        }
    }
    true
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use crate::RawLock;
    use crate::platform::Threads;
    use crate::raw::ticket::gone::*;
    use crate::slot::Slot;

    type Lock = Ticket<Threads>;

    fn give_up(lock: &Lock, ticket: u32) -> NodeId {
        let entered = Entered::<Threads>::new().unwrap();
        entered.trace(lock, Lock::CARE);
        let id = entered.id();
        core::mem::forget(entered);
        assert!(lock.give_ticket_up(ticket, id));
        id
    }

    /// A release lost its CPU before it kicked, until the tickets have gone round.
    #[test]
    fn a_late_kick_skips_no_ticket_before_its_turn() {
        let lock = Lock::new();
        lock.lock();
        let (first, second) = (lock.draw(true), lock.draw(true));
        let waiter = give_up(&lock, second);
        Lock::kick(&raw const lock, Head::new(first));
        assert_eq!(lock.served(), 0);
        // SAFETY: held; then the first waiter's, which lets the second be skipped.
        unsafe {
            lock.unlock();
            assert_eq!(lock.served(), first);
            lock.unlock();
        }
        assert!(!lock.is_locked());
        assert_eq!(waiter.node::<Threads>().state.load(Relaxed), NodeState::RELEASED);
        // Its turn is over, and served to nobody when it is given up.
        lock.lock();
        let third = lock.draw(true);
        // SAFETY: held.
        unsafe { lock.unlock() };
        give_up(&lock, third);
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_ticket_from_before_a_fork_is_void_and_another_is_drawn() {
        for (before, behind) in [(0, 1), (1, 1), (8_000, 100), (100, 8_000)] {
            let lock = Lock::new();
            let draw = |tickets| (0..tickets).map(|_| lock.draw(true)).last().unwrap();
            draw(1 + before);
            let own = draw(1);
            draw(behind);
            assert!(!lock.is_void(own));
            let in_child = lock.renewed();
            assert!(!in_child.is_locked() && in_child.is_void(own));
            in_child.lock_slow(Some(own));
            assert!(in_child.is_locked());
            // SAFETY: held.
            unsafe { in_child.unlock() };
            assert!(!in_child.is_locked());
        }
    }

    /// The CPU that serves the ticket and one or two late kicks look at once, with up to
    /// three preemptions: one of them skips the ticket, once it is served.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_ticket_that_is_served_while_it_is_in_hand_is_skipped() {
        use loom::sync::atomic::AtomicU32;

        for late_kicks in 1..=2 {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = Some(3);
            model.check(move || {
                let slot = Slot::with(|| AtomicU32::new(0));
                slot.node(0).state.store(NodeState::ticket_given_up(2), Relaxed);
                let shared = loom::sync::Arc::new((slot, AtomicU32::new(0)));
                let looks = |(slot, served): &(Slot<AtomicU32>, AtomicU32)| {
                    assert!(!take_in_hand(&slot.node(0).state, 4, || true));
                    let is_served = || served.load(Relaxed) == 2;
                    u32::from(take_in_hand(&slot.node(0).state, 2, is_served))
                };
                let late = [1, 2].map(|nth| {
                    let shared = shared.clone();
                    (nth <= late_kicks).then(|| loom::thread::spawn(move || looks(&shared)))
                });
                shared.1.store(2, Relaxed);
                let late = late.into_iter().flatten();
                let skips = looks(&shared) + late.map(|kick| kick.join().unwrap()).sum::<u32>();
                assert_eq!(skips, 1);
            });
        }
    }
}
