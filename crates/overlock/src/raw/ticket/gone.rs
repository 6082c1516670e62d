// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets of waiters that are gone: in a forked child, and after a signal handler has jumped out
//! of a wait.
//!
//! A ticket can't be handed back. So the node of a waiter that was thrown out stays in the table
//! with the state `TICKET_GIVEN_UP`, and one of two CPUs takes it from there by a CAS: the one
//! that serves the ticket, which releases it at once, or the waiter's own, if the ticket has been
//! served meanwhile without a look at the table.
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

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Slow, Ticket, Width};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::entered::Entered;
use crate::platform::Platform;
use crate::raw::RawLock;
use crate::raw::word::ticket::{Head, after, rmw};
use crate::slot::{Care, NodeId, NodeState, step};
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
                let own = state.compare_exchange(
                    NodeState::ticket_given_up(ticket),
                    NodeState::TICKET_RUNNING,
                    Relaxed,
                );
                if own.is_err() {
                    // The CPU that served the ticket skips it.
                    entered.leave_given_up();
                    return true;
                }
                waiters::remove::<P>(key, id);
                drop(entered);
                // SAFETY: the ticket is served, and no other CPU skips it.
                unsafe { self.unlock() };
            }
        }
        true
    }

    /// `(t,h,s) -> (t,h+2,s)`: releases the ticket that `lock` serves, if it was given up by
    /// `waiter`. Returns the head before.
    pub(super) fn skip(lock: *const Self, waiter: NodeId, ticket: u32) -> Option<Head> {
        let node = waiter.node::<P>();
        if node.state.load(Relaxed) != NodeState::ticket_given_up(ticket) || !node.is_for(lock) {
            return None;
        }
        // ORDERING: Acquire, for the node: this CPU is the last to reach it.
        node.state
            .compare_exchange(
                NodeState::ticket_given_up(ticket),
                NodeState::TICKET_RUNNING,
                Acquire,
            )
            .ok()?;
        waiters::remove::<P>(Key::new(lock, ticket), waiter);
        node.release();
        // SAFETY: the ticket is out, so the lock is alive (I6).
        let lock = unsafe { &*lock };
        // ORDERING: Release, O2.
        Some(Head::new(W::bits(lock.head.fetch_add(W::cut(rmw::RELEASE), Release))))
    }
}
