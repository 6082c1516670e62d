//! S1's paravirtual ticket lock.
//!
//! # Life of an acquisition
//! A CPU draws the next ticket from `tail` and has the lock if `head` already serves it. Otherwise
//! it spins for [`SPIN_THRESHOLD`] rounds, notes in its record which ticket it wants, sets the flag
//! in the lowest bit of `tail`, and halts unless it is served meanwhile. A release serves the next
//! ticket, and if the flag is set looks for the CPU that wants it and kicks that one. A release
//! that leaves no waiter clears the flag. Switched off, a release is a plain store.
//!
//! # Departures
//! - S1 draws from and looks at `head` and `tail` in one access; here they are two cells of a line.
//! - The CPUs that have halted are those of this lock; in S1 they are those of all locks.
//! - A kick changes the record before it calls, which [`Platform::wait`] asks for.
//!
//! # Sources
//! J. Fitzhardinge, "Paravirtualized ticketlocks" V6 (S1): the code of both paths, as text.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::counters::{Class, Event};
use overlock::platform::{Cpu, Platform};
use overlock::{ConstLock, RawLock};

use super::common::{CPUS, full_barrier, own, spin};
use overlock_bench::vcpus::Locks;

/// Rounds of spinning before a halt: S1's 0x800.
const SPIN_THRESHOLD: u64 = 1 << 11;
/// The flag in `tail`, and the step of both counters.
const FLAG: u16 = 1;
const STEP: u16 = 2;

/// Which ticket a halted CPU wants, plus 1: tickets are even, so 0 is none.
#[repr(align(64))]
struct Record<P: Platform>(P::Word);

#[repr(C)]
pub(crate) struct Ticket<P: Platform> {
    head: P::Half,
    tail: P::Half,
    /// A bit for each CPU with a record in use.
    halted: [P::Word; CPUS / 32],
    records: [Record<P>; CPUS],
}

impl<P: Platform<Half: ConstAtomic<u16>, Word: ConstAtomic<u32>>> ConstLock for Ticket<P> {
    const NEW: Self = Self {
        head: P::Half::ZERO,
        tail: P::Half::ZERO,
        halted: [const { P::Word::ZERO }; CPUS / 32],
        records: [const { Record(P::Word::ZERO) }; CPUS],
    };
}

impl<P: Platform> Ticket<P> {
    fn is_served(&self, ticket: u16) -> bool {
        // ORDERING: Acquire, with the release that serves the ticket.
        self.head.load(Acquire) == ticket
    }

    /// Halts until kicked, unless `ticket` is served.
    #[cold]
    fn halt(&self, ticket: u16) {
        let Some(cpu) = own::<P>() else { return };
        let (word, bit) = (&self.halted[cpu / 32], 1 << (cpu % 32));
        let want = u32::from(ticket) + 1;
        self.records[cpu].0.store(want, Relaxed);
        word.fetch_or(bit, Relaxed);
        // ORDERING: AcqRel, with the addition to `head` and the load of `tail` in a release: it
        // sees the flag, and by it the record; or its new `head` is seen below.
        self.tail.fetch_or(FLAG, AcqRel);
        full_barrier::<P>();
        if !self.is_served(ticket) {
            Locks::count(Event::PvWaitNode);
            P::wait(&self.records[cpu].0, want, None);
        }
        word.fetch_and(!bit, Relaxed);
        self.records[cpu].0.store(0, Relaxed);
    }

    /// Kicks the CPU that wants `ticket`, if it has halted.
    fn kick(&self, ticket: u16) {
        let want = u32::from(ticket) + 1;
        for (at, word) in self.halted.iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                let cpu = at * 32 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let record = &self.records[cpu].0;
                if record.load(Relaxed) == want
                    && record.compare_exchange(want, 0, Relaxed, Relaxed).is_ok()
                    && let Some(cpu) = Cpu::new(cpu)
                {
                    Locks::count(Event::PvKickUnlock);
                    return P::kick(record, cpu);
                }
            }
        }
    }
}

// SAFETY: each CPU has a ticket of its own, fewer than 2^15 are drawn at a time, and only the
// release of the CPU that is served serves the next.
unsafe impl<P: Platform> RawLock for Ticket<P> {
    fn lock(&self) {
        let ticket = self.tail.fetch_add(STEP, Relaxed) & !FLAG;
        if self.is_served(ticket) {
            return;
        }
        Locks::count(Event::LockSlowpath);
        while !spin::<P>(SPIN_THRESHOLD, || self.is_served(ticket)) {
            self.halt(ticket);
        }
    }

    fn try_lock(&self) -> bool {
        let tail = self.tail.load(Relaxed);
        let is_free = self.is_served(tail & !FLAG);
        is_free
            && self.tail.compare_exchange(tail, tail.wrapping_add(STEP), Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        if !P::WAITS || !P::waits() {
            let next = self.head.load(Relaxed).wrapping_add(STEP);
            // ORDERING: Release, with the Acquire of `is_served`.
            return self.head.store(next, Release);
        }
        // ORDERING: AcqRel; Release with `is_served`, and see `halt`.
        let next = self.head.fetch_add(STEP, AcqRel).wrapping_add(STEP);
        full_barrier::<P>();
        // ORDERING: Acquire, with the setting of the flag: the record is seen.
        let tail = self.tail.load(Acquire);
        if tail & FLAG == 0 {
            return;
        }
        let is_last = tail & !FLAG == next;
        if !(is_last && self.tail.compare_exchange(tail, next, Relaxed, Relaxed).is_ok()) {
            self.kick(next);
        }
    }

    fn is_locked(&self) -> bool {
        self.head.load(Relaxed) != self.tail.load(Relaxed) & !FLAG
    }
}
