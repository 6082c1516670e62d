//! Linux's paravirtual queued lock as S3 and S4 found it, and S4's hybrid.
//!
//! # State
//! `owner` has the byte `locked` (free, [`LOCKED`], [`SLOW`]) and the bit [`PENDING`], which the
//! queue head sets while it spins; `tail` names the last CPU in the queue. A waiter has a node:
//! whether it is the head, its successor, and whether it runs or has halted ([`RUNNING`],
//! [`HALTED`], [`HASHED`]). `hashed` names the halted head.
//!
//! # Life of an acquisition
//! A CPU that finds the lock taken tries once more, if neither `locked` nor pending is set: that is
//! a steal. A hybrid one tries as long as there is a queue and pending is clear. Then it joins the
//! queue.
//!
//! A waiter behind others spins for [`SPIN_THRESHOLD`] rounds, or until it sees that the waiter
//! before it does not run, and halts. The head sets pending, which ends steals, spins as long, and
//! clears it again; then it enters itself as hashed, marks the lock [`SLOW`], and halts. It enters
//! itself only once: after a steal the mark is gone, and the head does not halt again.
//!
//! A head that has taken the lock makes its successor the head. If that one has halted, the lock is
//! marked for it, and the release kicks it.
//!
//! # Departures
//! - Linux takes the fast path only without a queue, and finds out by its slow path that it can
//!   steal. Here the fast path steals, and looks at `tail` afterwards, in order to count it.
//! - `hashed` is one entry for each lock: a table without collisions.
//! - The head halts on its node, not on `locked`, and the release changes the node before it kicks.
//! - The waiter before is looked at in every round instead of every 256th, and its vCPU's flag
//!   `preempted`, which 4.14 looked at too, is not.
//!
//! # Sources
//! W. Long, mails of 2017 (S3, S4); the counters of Linux's lock events.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::counters::{Class, Event};
use overlock::platform::{Cpu, Platform};
use overlock::{ConstLock, RawLock};

use super::common::{CPUS, full_barrier, own, spin};
use overlock_bench::vcpus::Locks;

/// Rounds of spinning before a halt.
const SPIN_THRESHOLD: u64 = 1 << 15;

const LOCKED: u16 = 1;
const SLOW: u16 = 3;
const BYTE: u16 = 0xff;
const PENDING: u16 = 0x100;

const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;

#[repr(align(64))]
struct Node<P: Platform> {
    /// Whether this waiter is the queue head.
    is_head: P::Word,
    /// The number of the successor, plus 1.
    next: P::Word,
    state: P::Word,
}

/// `hashed`, on a line of its own.
#[repr(align(64))]
struct Entry<P: Platform>(P::Word);

/// See the [module documentation](self). With `HYBRID` it is S4's; with `FULL`, the two
/// compare-exchanges that S3 relaxes are sequentially consistent.
#[repr(C)]
pub(crate) struct Queue<P: Platform, const HYBRID: bool, const FULL: bool> {
    owner: P::Half,
    /// The number of the last waiter, plus 1.
    tail: P::Half,
    hashed: Entry<P>,
    nodes: [Node<P>; CPUS],
}

impl<P, const HYBRID: bool, const FULL: bool> ConstLock for Queue<P, HYBRID, FULL>
where
    P: Platform<Half: ConstAtomic<u16>, Word: ConstAtomic<u32>>,
{
    const NEW: Self = Self {
        owner: P::Half::ZERO,
        tail: P::Half::ZERO,
        hashed: Entry(P::Word::ZERO),
        nodes: [const { Node { is_head: P::Word::ZERO, next: P::Word::ZERO, state: P::Word::ZERO } };
            CPUS],
    };
}

impl<P: Platform, const HYBRID: bool, const FULL: bool> Queue<P, HYBRID, FULL> {
    /// The ordering of the two sites that S3 relaxes.
    const SITE: Ordering = if FULL { SeqCst } else { Acquire };

    /// `(free, no pending) -> (LOCKED, no pending)`
    fn take(&self, order: Ordering) -> bool {
        // ORDERING: at least Acquire, with the release.
        self.owner.compare_exchange(0, LOCKED, order, Relaxed).is_ok()
    }

    /// Tries to take the lock past the queue.
    fn steals(&self) -> bool {
        loop {
            if self.owner.load(Relaxed) & (BYTE | PENDING) == 0 && self.take(Self::SITE) {
                Locks::count(Event::PvLockStealing);
                return true;
            }
            if !HYBRID || self.tail.load(Relaxed) == 0 || self.owner.load(Relaxed) & PENDING != 0 {
                return false;
            }
            P::relax();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        Locks::count(Event::LockSlowpath);
        let Some(cpu) = own::<P>() else {
            while !self.take(Acquire) {
                P::relax();
            }
            return;
        };
        let (node, name) = (&self.nodes[cpu], cpu as u16 + 1);
        for cell in [&node.is_head, &node.next, &node.state] {
            cell.store(0, Relaxed);
        }
        if self.steals() {
            return;
        }
        // ORDERING: AcqRel: Release publishes the node to the successor; Acquire sees that of the
        // waiter before.
        let before = self.tail.swap(name, AcqRel);
        if before != 0 {
            let before = &self.nodes[usize::from(before) - 1];
            // ORDERING: Release, with the Acquire of `hand_on`.
            before.next.store(name.into(), Release);
            Self::wait_behind(node, before);
        }
        self.wait_at_head(node, name);
        self.hand_on(node, name);
    }

    /// Waits until `node` is the queue head.
    fn wait_behind(node: &Node<P>, before: &Node<P>) {
        loop {
            let mut is_head = false;
            spin::<P>(SPIN_THRESHOLD, || {
                // ORDERING: Acquire, with the Release of `hand_on`.
                is_head = node.is_head.load(Acquire) != 0;
                let early = P::WAITS && P::waits() && before.state.load(Relaxed) != RUNNING;
                is_head || early
            });
            if is_head {
                return;
            }
            // ORDERING: AcqRel, with the compare-exchange of `hand_on`: it sees the state, or this
            // sees `is_head`.
            node.state.swap(HALTED, AcqRel);
            full_barrier::<P>();
            // ORDERING: as above.
            if node.is_head.load(Acquire) == 0 {
                Locks::count(Event::PvWaitNode);
                P::wait(&node.state, HALTED, None);
            }
            // It may be hashed meanwhile.
            let _ = node.state.compare_exchange(HALTED, RUNNING, Relaxed, Relaxed);
        }
    }

    /// Takes the lock as the queue head.
    fn wait_at_head(&self, node: &Node<P>, name: u16) {
        Locks::count(Event::LockQueued);
        let mut has_hashed = node.state.load(Relaxed) == HASHED;
        loop {
            node.state.store(RUNNING, Relaxed);
            self.owner.fetch_or(PENDING, Relaxed);
            let taken = spin::<P>(SPIN_THRESHOLD, || {
                // ORDERING: at least Acquire, with the release.
                self.owner.load(Relaxed) & BYTE == 0
                    && self.owner.compare_exchange(PENDING, LOCKED, Self::SITE, Relaxed).is_ok()
            });
            if taken {
                return;
            }
            self.owner.fetch_and(!PENDING, Relaxed);
            if !has_hashed {
                has_hashed = true;
                self.hashed.0.store(name.into(), Relaxed);
                // ORDERING: AcqRel: Release publishes the entry to the release that finds the mark;
                // Acquire in case the lock was free.
                if self.owner.fetch_or(SLOW, AcqRel) & BYTE == 0 {
                    self.owner.fetch_sub(SLOW - LOCKED, Relaxed);
                    return self.hashed.0.store(0, Relaxed);
                }
            }
            // ORDERING: AcqRel, with the compare-exchange of the release, which comes after its
            // change of `owner`: it sees the state, or this sees the change.
            node.state.swap(HASHED, AcqRel);
            full_barrier::<P>();
            if self.owner.load(Relaxed) & BYTE == SLOW {
                Locks::count(Event::PvWaitHead);
                P::wait(&node.state, HASHED, None);
            }
        }
    }

    /// Leaves the queue with the lock, and makes the successor the head.
    fn hand_on(&self, node: &Node<P>, name: u16) {
        // ORDERING: Release: the node is free when the next waiter finds no queue.
        if self.tail.load(Relaxed) == name
            && self.tail.compare_exchange(name, 0, Release, Relaxed).is_ok()
        {
            return;
        }
        let mut next = 0;
        while next == 0 {
            // ORDERING: Acquire, with the Release that links the successor.
            next = node.next.load(Acquire);
            if next == 0 {
                P::relax();
            }
        }
        let successor = &self.nodes[next as usize - 1];
        // ORDERING: Release, with the Acquire of `wait_behind`.
        successor.is_head.store(1, Release);
        full_barrier::<P>();
        // ORDERING: AcqRel, with the swap of `wait_behind`.
        if successor.state.compare_exchange(HALTED, HASHED, AcqRel, Relaxed).is_ok() {
            self.hashed.0.store(next, Relaxed);
            // ORDERING: Release publishes the entry to the release, which may be another CPU's.
            self.owner.fetch_or(SLOW, Release);
        }
    }

    /// Releases a lock that was marked: its byte `locked` is now `SLOW - LOCKED`.
    #[cold]
    fn unlock_slow(&self) {
        let name = self.hashed.0.load(Relaxed);
        self.hashed.0.store(0, Relaxed);
        // ORDERING: AcqRel, with the acquisitions, and see `wait_at_head`.
        self.owner.fetch_and(!BYTE, AcqRel);
        full_barrier::<P>();
        let Some(cpu) = Cpu::new((name as usize).wrapping_sub(1)) else { return };
        let node = &self.nodes[cpu.index()];
        // ORDERING: Acquire, with the swap of `wait_at_head`.
        let _ = node.state.compare_exchange(HASHED, RUNNING, Acquire, Relaxed);
        Locks::count(Event::PvKickUnlock);
        P::kick(&node.state, cpu);
    }
}

// SAFETY: one read-modify-write takes `locked` from free to taken: those of `take` and of
// `wait_at_head`. Only the holder frees it again; a mark leaves it taken.
unsafe impl<P: Platform, const HYBRID: bool, const FULL: bool> RawLock for Queue<P, HYBRID, FULL> {
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    fn try_lock(&self) -> bool {
        let taken = self.take(Acquire);
        if taken && self.tail.load(Relaxed) != 0 {
            Locks::count(Event::PvLockStealing);
            if FULL {
                // ORDERING: none that anything needs: Linux's slow path would have stolen.
                P::fence(SeqCst);
            }
        }
        taken
    }

    unsafe fn unlock(&self) {
        // ORDERING: AcqRel: Release with the acquisitions; Acquire with the mark and its entry.
        if self.owner.fetch_sub(LOCKED, AcqRel) & BYTE == SLOW {
            self.unlock_slow();
        }
    }

    fn is_locked(&self) -> bool {
        self.owner.load(Relaxed) & BYTE != 0
    }
}
