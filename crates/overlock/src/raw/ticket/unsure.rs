//! A release for callers that may not hold the lock: a C program can unlock a mutex twice.
//!
//! The ordinary release serves the next ticket. A second one would pass a waiter that has not
//! noticed yet that it is served, or leave a free lock that serves a ticket which no CPU has drawn.
//! This one names the ticket whose turn it ends, and is a compare-exchange in its place.

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{Ticket, Width};
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::word::ticket::Head;

impl<P: Platform, C: Class, W: Width> Ticket<P, C, W> {
    /// Returns the ticket that is served. From an acquisition to its release, it is the holder's.
    #[inline]
    #[doc(hidden)]
    pub fn served(&self) -> u32 {
        self.look().served()
    }

    /// Releases the lock if it still serves `ticket`. Returns whether it did. Of several CPUs that
    /// release one acquisition at the same time, one does. A CPU that stops in here, until exactly
    /// 2^15 (or 2^7) tickets have been served, can release another.
    ///
    /// # Safety
    /// The CPU that drew `ticket` has acquired the lock by it. If it still holds the lock, the
    /// caller is that CPU or is entitled to release it in its place.
    #[inline]
    #[doc(hidden)]
    pub unsafe fn unlock_ticket(&self, ticket: u32) -> bool {
        let address = ptr::from_ref(self);
        let mut head = Head::new(ticket);
        loop {
            let (seen, next) = (W::cut(head.bits()), W::cut(head.released()));
            // ORDERING: Release, O2. (t,h,s) -> (t,h+2,s); the words are not touched again (I4).
            match self.head.compare_exchange(seen, next, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => head = Head::new(W::bits(now)),
            }
            if head.served() != ticket {
                return false;
            }
        }
        if P::WAITS && head.has_halted() {
            Self::kick(address, head);
        }
        true
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use crate::platform::Threads;
    use crate::{RawLock, Ticket};

    #[test]
    fn a_second_release_serves_no_further_ticket() {
        let lock = Ticket::<Threads>::new();
        for _ in 0..3 {
            lock.lock();
            let ticket = lock.served();
            let waiter = lock.draw(true);
            // SAFETY: held.
            assert!(unsafe { lock.unlock_ticket(ticket) });
            // SAFETY: the ticket is not served any more.
            assert!(!unsafe { lock.unlock_ticket(ticket) });
            assert_eq!(lock.served(), waiter);
            // SAFETY: the waiter's ticket is served.
            assert!(unsafe { lock.unlock_ticket(waiter) });
            assert!(!lock.is_locked());
        }
    }
}
