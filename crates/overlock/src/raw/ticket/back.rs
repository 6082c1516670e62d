// SPDX-License-Identifier: MIT OR Apache-2.0
//! A release that leaves the zeros of a new lock if no CPU waits: C programs compare a mutex with
//! its initialiser.
//!
//! The holder hands its ticket back where none is out behind it. It first exchanges it for ticket
//! zero, because that is the one which a new lock serves:
//!
//! ```text
//!   head   (h,0) -> (0,0)       no ticket is out that could be served by it
//!   tail   h+2   -> 0           no ticket has been drawn meanwhile: the lock is released
//! ```
//!
//! If one has been drawn, the head is changed back. Tickets that are drawn in between are behind
//! `h`, so none of them is zero as long as `h` is in the lower half of all tickets. A ticket in the
//! upper half is therefore exchanged for one in the lower half before.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{Ticket, Width};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::word::ticket::after;

impl<P: Platform, C: Class, W: Width> Ticket<P, C, W> {
    /// Releases the lock if no ticket is out but the holder's, and none is being drawn. Then both
    /// cells are zero. Returns whether it did.
    ///
    /// # Safety
    /// The caller holds the lock, or is entitled to release it in place of the holder; no other CPU
    /// does the same.
    #[inline]
    #[doc(hidden)]
    pub unsafe fn hand_back(&self) -> bool {
        let head = self.look();
        let (ticket, half) = (head.served(), W::TICKETS as u32);
        if head.has_halted() || W::bits(self.tail.load(Relaxed)) != W::bits(W::cut(after(ticket))) {
            return false;
        }
        if ticket < half {
            return self.exchange(ticket, 0, 0);
        }
        let lower = ticket - half;
        self.exchange(ticket, lower, after(lower)) && self.exchange(lower, 0, 0)
    }

    /// Exchanges the holder's ticket, unless another one is out: `(t,h,0) -> (tail,to,0)`.
    fn exchange(&self, ticket: u32, to: u32, tail: u32) -> bool {
        let (from, to) = (W::cut(ticket), W::cut(to));
        // (t,h,0) -> (t,to,0). It fails where a waiter has set `S`.
        if self.head.compare_exchange(from, to, Relaxed, Relaxed).is_err() {
            return false;
        }
        let is_last = self.draw_back(after(ticket), tail);
        if !is_last {
            // (t,to,s) -> (t,h,s)
            let back = ticket.wrapping_sub(W::bits(to));
            self.head.fetch_add(W::cut(back), Relaxed);
        }
        is_last
    }

    /// `(next,to,0) -> (tail,to,0)`, unless a ticket has been drawn.
    fn draw_back(&self, next: u32, tail: u32) -> bool {
        // ORDERING: Release, O6.
        self.tail.compare_exchange(W::cut(next), W::cut(tail), Release, Relaxed).is_ok()
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use crate::platform::Threads;
    use crate::{RawLock, Ticket};

    #[test]
    fn a_lock_without_waiters_is_as_new_whatever_ticket_was_the_last() {
        let lock = Ticket::<Threads>::new();
        for ticket in (0..=u16::MAX).step_by(2) {
            for waits in [true, false] {
                lock.head.store(ticket, Relaxed);
                lock.tail.store(ticket, Relaxed);
                assert!(lock.try_lock());
                let behind = waits.then(|| lock.draw(true));
                // SAFETY: held.
                assert_eq!(unsafe { lock.hand_back() }, !waits);
                let cells = (lock.head.load(Relaxed), lock.tail.load(Relaxed));
                match behind {
                    Some(behind) => assert_eq!(cells, (ticket, (behind as u16).wrapping_add(2))),
                    None => assert_eq!(cells, (0, 0)),
                }
            }
        }
    }
}
