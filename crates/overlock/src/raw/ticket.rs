//! `Ticket`: first come, first served. A waiter spins for a bounded time, then halts; the release
//! kicks exactly the next ticket (S1).
//!
//! Where CPUs get taken away, a plain ticket lock collapses: only one waiter can take the lock
//! next, and all the others burn their time slices until that one happens to run. So a waiter
//! halts, which frees the processor for the CPU that the lock needs, and the release calls the next
//! ticket back.
//!
//! A ticket can't be taken back. If the CPU that has the next ticket never runs again, because its
//! thread has been stopped, the lock stays free and no other CPU takes it. Where that can happen (a
//! collector that stops threads by signals), use [`Queued`](crate::Queued) or
//! [`Hybrid`](crate::Hybrid), whose waiters pass such a CPU after some milliseconds.
//!
//! # State
//!
//! Two cells of equal width, each its own atomic object (no access covers both): `head`, which
//! holds the ticket served and the flag `S`, and `tail`, the next ticket. See `word/ticket.rs`.
//! [`Wide`] tickets are 16 bits each, [`Narrow`] ones 8 bits.
//!
//! # Life of an acquisition
//!
//! ```text
//!  (tail, head, S)
//!
//!  fast                     : slow                              : unlock
//!                           :                                   :
//!  (h,h,s) -> (h+2,h,s)     : (t,h,s) -> (t+2,h,s)              : (t,h,s) -> (t,h+2,s)
//!    | drawn: ours          :    |                              :    | s == 1
//!    | else                 :    v                              :    v
//!    +--------------------->: spin until h is my ticket         :  kick ticket h+2
//!                           :    | budget spent                 :
//!                           :    v                              :
//!                           : (t,h,s) -> (t,h,1), halt          :
//!                           :    | kicked, and h is my ticket   :
//!                           :    v no ticket behind mine        :
//!                           : (t,h,1) -> (t,h,0)                :
//! ```
//!
//! # How many tickets are out
//!
//! No two waiters may have equal tickets, however many contexts there are. A CPU has at most one
//! ticket of a lock: a handler that waits for the lock that it interrupted would wait for ever. So
//! CPUs with a number draw by an addition, provided that half of the tickets outnumber all CPU
//! numbers ([`Wide`]). All other CPUs draw by a CAS while less than half of the tickets are out;
//! otherwise they wait outside, in no order.
//!
//! # Invariants
//!
//! * I1: `head` changes its ticket only in a release of the ticket that it serves.
//! * I2: a halted waiter entered the table, then set `S`, then saw that `head` was not its ticket;
//!   so the release that serves its ticket sees `S` (except as in I3) and finds the entry.
//! * I3: only the holder clears `S` (or overwrites it, I5). Where it clears `S` on purpose, it sets
//!   `S` again if a ticket was drawn that it had not seen before it cleared.
//! * I4: after its store, or its RMW that returns `S`, a release uses only the address of the words
//!   (F4).
//! * I5: where the platform has a cheap release (P11), a release that was under way when a waiter
//!   set `S` may overwrite it; it has then moved `head`. So the waiter calls `membarrier` and sets
//!   `S` once more. If `head` still serves the same ticket, the release of that ticket has not
//!   begun, or sees `S`.
//! * I6: the node of a waiter that was thrown out (`ticket/gone.rs`) names the lock and its ticket
//!   until the CPU that serves the ticket skips it. The lock is then alive, its ticket still out.
//! * I7: a forked child replaces a lock by one whose numbers have moved on (`renewed`). If the fork
//!   was in a signal handler that interrupted a wait, the waiter finds its ticket void, and draws
//!   another.
//!
//! ```text
//!   release of ticket h                waiter
//!   sequence: head == (h,0)?           A   head |= S, serves h
//!            head = (h+2,0)            B   membarrier
//!                                      C   head |= S, serves h still? halt : again
//! ```
//!
//! If the sequence looked before A, it has stored when B returns, and C finds another ticket; or it
//! never stores. If it looked after A, it saw `S` and became an RMW. One release pays for each turn
//! of the loop, and the release that serves the waiter's own ticket ends it.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | `head` load that sees the ticket served | Acquire | O2 |
//! | O2 | `head` release add, CAS, store or cheap release | Release | O1: the critical sections are ordered |
//! | O3 | `head` or `S` | AcqRel | Release with O4 (the entry) and O5 (the ticket drawn before); Acquire with O2, where it finds the ticket served |
//! | O4 | fence after a release that saw `S` | Acquire | O3 |
//! | O5 | `head` and-not `S` | Acquire | O3: if this clears a waiter's `S`, the `tail` load that follows sees that waiter's ticket |
//!
//! Drawing a ticket is `Relaxed`: it only decides an order, and no data is read through it.
//!
//! # Departures
//!
//! * S1 keeps the flag in the tail and reads it after the release: by then the next owner may have
//!   freed the lock (F4). Linux 4.2 moved it into the head (arch/x86/include/asm/spinlock.h), and
//!   so do we.
//! * S1 clears the flag in the release. Here a waiter that finds no ticket behind its own clears it
//!   while it holds the lock.
//! * The spin budget is time, and only the next waiter has a substantial one: on a machine with
//!   fewer CPUs than waiters, any other spinner burns the CPU that the holder or the next waiter
//!   needs.
//!
//! # Limits
//!
//! There is no timed lock, because a ticket can't be handed back. `try_lock` draws a ticket only if
//! it would be served at once. Should exactly 2^15 (or 2^7) acquisitions happen between its two
//! accesses (F23), it notices, and then has to wait for its turn.
//!
//! Where the platform has a cheap release, each halt costs a `membarrier`. On threads that is about
//! a tenth of the throughput of a lock that changes hands by halts.
//!
//! After a `fork`, a child frees the lock of waiters that it has a trace of: those with a number
//! and a free node, where waiting is switched on. If other waiters had drawn a ticket of a lock,
//! that lock stays locked in the child. On [`Native`](crate::platform::Native) no CPU has a number,
//! so that is the fate of every lock that a thread waited for.
//!
//! # Sources
//!
//! J. Fitzhardinge et al., "Paravirtualized ticketlocks" (S1, 2012); T. Friebel, "Prevent Guests
//! from Spinning Around", Xen Summit 2008.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::counters::{Class, Event, Uncounted};
use crate::entered::Entered;
use crate::platform::{CheapRelease, MAX_CPUS, Platform};
use crate::raw::word::ticket::{Head, after, count, rmw};
use crate::raw::{RawFairLock, RawLock};
use crate::slot::{NodeState, step};
use crate::spin::Spin;
use crate::waiters::{self, Key, NAP_NS};

mod gone;
mod unsure;
mod width;

pub use width::{Narrow, Wide, Width};

/// How long the next waiter spins before it halts: about half of what a halt and a wake-up cost.
fn spin_next_ns<P: Platform>() -> u64 {
    P::costs().wake_ns / 5 * 2
}
/// How long any other waiter spins before it halts.
const SPIN_FAR_NS: u64 = 200;
/// The longest nap between two attempts to draw a ticket: hundreds of CPUs may be napping.
const NAP_MAX_NS: u64 = 3_200_000;

/// The result of setting the slow-path flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slow {
    /// It is set, and the release that serves the ticket sees it.
    Set,
    /// A release may have overwritten it.
    Unsure,
    Served,
}

/// The paravirtual ticket lock. See the [module documentation](self).
#[repr(C)]
pub struct Ticket<P: Platform, C: Class = Uncounted, W: Width = Wide> {
    head: W::Cell<P>,
    tail: W::Cell<P>,
    class: PhantomData<C>,
}

impl<P: Platform, C: Class, W: Width> Ticket<P, C, W> {
    /// An unlocked lock in two cells, for platforms whose cells can't be constants.
    ///
    /// ```compile_fail,E0133
    /// use core::sync::atomic::*;
    /// use overlock::{Ticket, platform::Native};
    /// let lock = Ticket::<Native>::with(AtomicU16::new(4), AtomicU16::new(0));
    /// ```
    ///
    /// # Safety
    /// Both cells hold zero. From other values, two CPUs may hold the lock at the same time.
    pub const unsafe fn with(head: W::Cell<P>, tail: W::Cell<P>) -> Self {
        Self { head, tail, class: PhantomData }
    }

    /// Whether all CPUs with a number can hold a ticket each, and as many others besides.
    const ADDS: bool = MAX_CPUS < W::TICKETS / 2;

    /// The ticket served, and the flag.
    #[inline]
    fn look(&self) -> Head {
        Head::new(W::bits(self.head.load(Relaxed)))
    }

    #[inline]
    fn is_served(&self, ticket: u32) -> bool {
        // ORDERING: Acquire, O1.
        Head::new(W::bits(self.head.load(Acquire))).served() == ticket
    }

    /// How many releases from now `ticket` will be served.
    #[inline]
    fn distance(&self, ticket: u32) -> u32 {
        count(W::bits(W::cut(ticket.wrapping_sub(self.look().served()))))
    }

    /// Draws a ticket and waits until it is served; or waits for `drawn`, a ticket already drawn.
    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, drawn: Option<u32>) {
        C::count(Event::LockSlowpath);
        // This takes the number first: from then on the answer below is fixed.
        let has_number = P::cpu().is_some();
        if !P::WAITS || !P::waits() {
            let ticket = drawn.unwrap_or_else(|| self.draw(has_number));
            while !self.is_served(ticket) {
                P::relax();
            }
            return;
        }
        let entered = Entered::<P>::new();
        match &entered {
            Some(entered) => entered.trace(self, Self::CARE),
            None => C::count(Event::LockNoNode),
        }
        let ticket = drawn.unwrap_or_else(|| self.draw(entered.is_some()));
        if let Some(entered) = &entered {
            entered.has_got_to(step::drawn(ticket));
        }
        let mut event = Event::PvWaitNode;
        while !self.spin(ticket) && !self.halt(ticket, entered.as_ref(), event) {
            event = Event::PvWaitAgain;
            if self.is_void(ticket) {
                // A signal handler forked, and this is the child.
                drop(entered);
                return self.lock_slow(None);
            }
        }
        if self.look().has_halted() {
            self.clear_slow(ticket);
        }
    }

    /// `(t,h,s) -> (t+2,h,s)`: draws the next ticket, `t`.
    fn draw(&self, has_number: bool) -> u32 {
        if Self::ADDS && has_number {
            return W::bits(self.tail.fetch_add(W::cut(rmw::DRAW), Relaxed));
        }
        let mut nap_ns = NAP_NS;
        loop {
            let next = W::bits(self.tail.load(Relaxed));
            if (self.distance(next) as usize) < W::TICKETS / 2 {
                if self.draw_if_next(next) {
                    return next;
                }
                P::relax();
            } else {
                P::nap(nap_ns);
                nap_ns = (nap_ns * 2).min(NAP_MAX_NS);
            }
        }
    }

    /// `(ticket,h,s) -> (ticket+2,h,s)`
    #[inline]
    fn draw_if_next(&self, ticket: u32) -> bool {
        let (ticket, next) = (W::cut(ticket), W::cut(after(ticket)));
        self.tail.compare_exchange(ticket, next, Relaxed, Relaxed).is_ok()
    }

    /// Spins for as long as the place in the order justifies. Returns whether `ticket` is served.
    fn spin(&self, ticket: u32) -> bool {
        let mut far = Spin::new(P::costs(), SPIN_FAR_NS);
        let mut next = Spin::new(P::costs(), spin_next_ns::<P>());
        loop {
            if self.is_served(ticket) {
                return true;
            }
            let spin = if self.distance(ticket) == 1 { &mut next } else { &mut far };
            if !spin.goes_on::<P>() {
                return self.is_served(ticket);
            }
        }
    }

    /// Halts once, unless the ticket is served. Returns whether it is.
    fn halt(&self, ticket: u32, entered: Option<&Entered<P>>, event: Event) -> bool {
        let key = Key::new(self, ticket);
        let Some(entered) = entered.filter(|e| waiters::insert::<P>(key, e.id())) else {
            C::count(Event::PvHashFull);
            P::nap(NAP_NS);
            return self.is_served(ticket);
        };
        let state = &entered.node().state;
        state.store(NodeState::TICKET_HALTED, Relaxed);
        let slow = self.set_slow(ticket);
        match slow {
            Slow::Set if !self.is_void(ticket) => {
                C::count(event);
                state.wait::<P>(NodeState::TICKET_HALTED, None);
                let kicked = state.load(Relaxed) == NodeState::TICKET_RUNNING;
                C::count(if kicked { Event::PvKickWake } else { Event::PvSpuriousWakeup });
            }
            Slow::Unsure => P::nap(NAP_NS),
            Slow::Set | Slow::Served => {}
        }
        waiters::remove::<P>(key, entered.id());
        slow == Slow::Served
    }

    /// `(t,h,s) -> (t,h,1)`, unless `ticket` is served.
    fn set_slow(&self, ticket: u32) -> Slow {
        let mut fenced = None;
        loop {
            // ORDERING: AcqRel, O3.
            let head = self.head.fetch_or(W::cut(rmw::SET_HALTED), AcqRel);
            let served = Head::new(W::bits(head)).served();
            if served == ticket {
                return Slow::Served;
            }
            // All sequences are over and the ticket is the same: its release sees the flag (I5).
            if !P::Release::EXISTS || !W::ADVANCES || fenced == Some(served) {
                return Slow::Set;
            }
            if !P::Release::membarrier() {
                return Slow::Unsure;
            }
            fenced = Some(served);
        }
    }

    /// Clears the flag if no ticket is out behind this one, which is the holder's (I3).
    fn clear_slow(&self, ticket: u32) {
        let is_last = || W::bits(self.tail.load(Relaxed)) == W::bits(W::cut(after(ticket)));
        if !is_last() {
            return;
        }
        // ORDERING: Acquire, O5. (t,h,1) -> (t,h,0)
        self.head.fetch_and(W::cut(rmw::CLEAR_HALTED), Acquire);
        if !is_last() {
            // A CPU drew a ticket meanwhile and may have set the flag before it was cleared.
            self.head.fetch_or(W::cut(rmw::SET_HALTED), Relaxed);
        }
    }

    /// Kicks the waiter whose ticket comes after the one in `head`, if it has halted. The lock has
    /// been released: only its address is used (I4), unless that ticket was given up (I6).
    #[cold]
    #[inline(never)]
    pub(crate) fn kick(lock: *const Self, mut head: Head) {
        while let Some(skipped) = Self::kick_next(lock, head) {
            head = skipped;
        }
    }

    /// [`kick`](Self::kick), or the head by which the next ticket was skipped, if it kicks another.
    fn kick_next(lock: *const Self, head: Head) -> Option<Head> {
        let ticket = W::bits(W::cut(after(head.served())));
        // ORDERING: Acquire, O4.
        P::fence(Acquire);
        for waiter in waiters::find::<P>(Key::new(lock, ticket)) {
            if let Some(head) = Self::skip(lock, waiter, ticket) {
                return head.has_halted().then_some(head);
            }
            let state = &waiter.node::<P>().state;
            // The waiter may sleep in `TICKET_RUNNING`: a late release of another lock, for which
            // it halted before, may have lost its CPU before it kicked. So this kicks anyway.
            let _ = state.compare_exchange(
                NodeState::TICKET_HALTED,
                NodeState::TICKET_RUNNING,
                Relaxed,
            );
            C::count(Event::PvKickUnlock);
            state.kick::<P>(waiter.cpu());
        }
        None
    }
}

// SAFETY: a ticket is drawn by one CPU only and served once; `head` moves on only in `unlock` (I1);
// O1 and O2 order the critical sections. No two tickets that are out are equal.
unsafe impl<P: Platform, C: Class, W: Width> RawLock for Ticket<P, C, W> {
    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let free = self.look().served();
        if !self.draw_if_next(free) {
            return false;
        }
        if !self.is_served(free) {
            // F23: the tickets have gone round since `head` was read; none can be given back.
            self.lock_slow(Some(free));
        }
        true
    }

    #[inline]
    unsafe fn unlock(&self) {
        let address = ptr::from_ref(self);
        const { assert!(P::WAITS || !P::Release::EXISTS, "a cheap release is for CPUs that wait") };
        // (t,h,0) -> (t,h+2,0), with Release: O2; the words are not touched again (I4).
        if P::Release::EXISTS && W::advance::<P>(&self.head) {
            return;
        }
        if P::WAITS && P::waits() {
            // ORDERING: Release, O2. (t,h,s) -> (t,h+2,s); the words are not touched again (I4).
            let head = Head::new(W::bits(self.head.fetch_add(W::cut(rmw::RELEASE), Release)));
            if head.has_halted() {
                Self::kick(address, head);
            }
        } else {
            let next = self.look().released();
            // ORDERING: Release, O2. Only the holder writes `head` (I1): while waiting is off, no
            // CPU sets the flag.
            self.head.store(W::cut(next), Release);
        }
    }

    fn is_locked(&self) -> bool {
        self.distance(W::bits(self.tail.load(Relaxed))) != 0
    }
}

// SAFETY: the release of `RawLock`, which serves the next ticket.
unsafe impl<P: Platform, C: Class, W: Width> RawFairLock for Ticket<P, C, W> {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { RawLock::unlock(self) };
    }
}

faces!(
    Ticket<P: Platform, C: Class, W: Width> called "Ticket",
    where W::Cell<P>: W::Int; W::Cell::<P>::ZERO, W::Cell::<P>::ZERO
);

#[cfg(all(test, feature = "threads"))]
mod tests {
    use crate::platform::Threads;
    use crate::raw::ticket::*;

    /// A CPU's nodes serve locks of every kind. A late kick for a ticket that this CPU halted for
    /// earlier must not change the state that another lock's waiters and releases rely on.
    #[test]
    fn a_late_kick_leaves_the_states_of_other_locks_alone() {
        static LOCK: Ticket<Threads> = Ticket::new();
        let entered = Entered::<Threads>::new().unwrap();
        let key = Key::new(&raw const LOCK, after(0));
        assert!(waiters::insert::<Threads>(key, entered.id()));
        let node = entered.node();
        let queue =
            [NodeState::WAITING, NodeState::HALTED_BEHIND, NodeState::HEAD, NodeState::HEAD_HALTED];
        let queue = queue.into_iter().chain([NodeState::KICKED, NodeState::kicking(None)]);
        for other in queue.chain([NodeState::parked(0), NodeState::parked(7), NodeState::UNPARKED])
        {
            node.state.store(other, Relaxed);
            Ticket::<Threads>::kick(&raw const LOCK, Head::new(0));
            assert_eq!(node.state.load(Relaxed), other);
        }
        node.state.store(NodeState::TICKET_HALTED, Relaxed);
        Ticket::<Threads>::kick(&raw const LOCK, Head::new(0));
        assert_eq!(node.state.load(Relaxed), NodeState::TICKET_RUNNING);
        waiters::remove::<Threads>(key, entered.id());
    }
}
