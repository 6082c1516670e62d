// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of waiters that [`Queued`](super::Queued) and [`Hybrid`](super::Hybrid) share: an MCS
//! queue behind a 4-byte word.
//!
//! # State
//!
//! ```text
//!  31                    16 15            4    3         2         1         0
//! +------------------------+---------------+---------+--------+---------+--------+
//! |          tail          |    steals     | SPINNER | HALTED | PENDING | LOCKED |
//! +------------------------+---------------+---------+--------+---------+--------+
//! ```
//!
//! | field | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `LOCKED` | Somebody holds the lock. | who takes it | the release |
//! | `PENDING` | The first in line has declared itself: nobody may pass it. Without a line, where releases may be sections ([`Platform::SECTIONS`]): *contended*, see Q7. | the first in line; who leaves the line empty | the first in line; who joins, or takes a lock that has long had no line |
//! | `HALTED` | The first in line has halted and is in the table of waiters. | the first, or the holder that promoted it asleep | the first when it is back; or who passes it while it waits for a processor (`Hybrid`, I6) |
//! | `SPINNER` | A newcomer in unfair mode watches the lock: a release need not kick. (`Hybrid`) | that newcomer | that newcomer |
//! | `steals` | How often the first in line has been passed (`Hybrid`). Without a line, how often a contended lock has been taken since. All ones: the line is only *begun*, see Q7. | who passes it | the first when it takes the lock |
//! | `tail` | The code of the last node in line, or zero: nobody waits. | who joins the line | the first, if it is also the last |
//!
//! A node's `state` is the one word that a waiter and its wakers race on:
//!
//! ```text
//!              halts        promoted asleep            kicks            has kicked
//!  WAITING ----------> HALTED -------------> FIRST_HALTED ---> KICKING ---------> KICKED
//!     |                   |                     ^     |           |                 |
//!     | promoted          | gives up      halts |     |           | comes back      |
//!     v                   v                     |     v           v                 |
//!   FIRST             ABANDONED --> RELEASED    +---- FIRST <-----+-----------------+
//! ```
//!
//! `KICKING` says that a release is about to kick, and `KICKED` that it has kicked. `KICKING` names
//! the CPU, because only that one may turn it into `KICKED`. A release that finds the mark kicks
//! too; when it is older than a wake-up takes, it also puts its own name there, because the named
//! one seems to have lost its CPU.
//!
//! A node's `next` is zero until the successor links itself, then the successor's code; or [`GONE`]
//! if the waiter has left first.
//!
//! # Invariants
//!
//! * Q1: exactly one node of a line is first: it has no predecessor, or its predecessor has taken
//!   the lock or given up. Only the first may take the lock out of the line, declare `PENDING`, or
//!   halt on the lock.
//! * Q2: `FIRST_HALTED` in a node implies its entry in the table; `HALTED` in the word implies that
//!   a node is in one of `FIRST_HALTED`, `KICKING` and `KICKED`, or on its way out of them. Once
//!   the lock is free, `FIRST_HALTED` implies `HALTED`, or a release or a steal that is about to
//!   kick.
//! * Q3: a release that sees `HALTED` finds the first in line in the table, or the first is awake
//!   and looks at the word again before it halts.
//! * Q4: nobody waits for a CPU that may be away: neither a holder for its successor to link
//!   itself, nor a promoter for a waiter that gave up.
//! * Q5: a node is reused only when nobody can reach it: its successor has linked itself, or the
//!   tail named it when it left.
//! * Q6: `KICKED` implies that the waiter has been kicked since it halted. A release that finds
//!   anything less kicks: it can't rely on another that was taken away before it kicked. The other
//!   need not even be a release of this lock: it may have found the node when the waiter halted for
//!   another, and its CPU may by now wait for this lock in an interrupt.
//! * Q7: where releases may be sections (P11), the word is `LOCKED` and nothing else while one is
//!   under way, and whoever changes it then settles that before anybody relies on the change. The
//!   only such change is the beginning of a line, next.
//!
//! # Beginning a line
//!
//! A release that finds nobody waiting stores a zero, which overwrites whatever came between its
//! look and its store. What may come there is one thing, a first waiter. So that one does not join
//! the line but *begins* it, has all sections under way cut off, and looks again:
//!
//! ```text
//!   release                          first waiter
//!                                    (0,0,0,0,1) -> (me,BEGUN,0,0,1)
//!   section: word == LOCKED?         settle
//!            word = 0                (me,BEGUN,..) -> (me,0,..): established
//!                                    no longer there: once more
//! ```
//!
//! If the section looked before the change, it has stored by the time `settle` returns, and the
//! waiter finds its name gone; or it never stores. If it looked after, it finds more than `LOCKED`
//! and becomes a read-modify-write. From then on nobody overwrites the word, for no section starts
//! while there is a tail.
//!
//! Nobody links itself behind a waiter that has only begun. Others leave it time, some milliseconds
//! ([`Beginner`]); then it must have lost its CPU, and one of them takes its place, and begins in
//! its turn. It has no claim yet: the lock may be taken past it, uncounted.
//!
//! To settle is a system call that interrupts other CPUs. So a lock that has had a line stays
//! *contended* (`PENDING` without a tail) until it has been taken 4,095 times without one: its
//! releases are read-modify-writes, and the next line needs no beginning.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | Q-O1 | tail CAS in `join` | AcqRel | itself: the predecessor has initialised its node before the successor links to it; and Q-O7 |
//! | Q-O2 | `next` swap, by successor and by predecessor | AcqRel; Release by a predecessor that leaves | itself: the successor's node is initialised before it is promoted past a waiter that gave up; and whoever can reach a node is done with it before it is released |
//! | Q-O3 | setting `HALTED` in the word, by the first in line | Release | Q-O4: the table entry, and `FIRST_HALTED`, are visible to a release that sees the bit |
//! | Q-O4 | fence after a release that saw `HALTED` | Acquire | Q-O3 |
//! | Q-O5 | promotion, asleep | Release | Q-O6: the entry and the bit exist before their owner takes them out |
//! | Q-O6 | waiter's reads of `FIRST_HALTED`, `KICKED` | Acquire | Q-O5 |
//! | Q-O7 | the CAS by which the first in line leaves it, with the lock or without | Acquire | Q-O1: a tail that names another was written after the successor had initialised its node |
//!
//! While there is a line the word is changed by RMWs only (Q7), so each of them continues the
//! release sequences of those before it: Q-O7 meets the tail CAS of the successor whoever joined
//! after it, and a release that sees `HALTED` meets Q-O3 through every RMW between. A promoter that
//! sets `HALTED` for its successor holds the lock: who releases the lock after that is itself, or
//! has acquired the lock from it, and so finds the entry without help of the bit.
//!
//! # The race of halt and promotion
//!
//! Linux keeps "you are first" (`locked`) and "I sleep" (`state`) in two words, so halt and
//! promotion are a store-buffering race (F1), which S3 is about: on some machines the promoter's
//! failed `cmpxchg` orders nothing, and both sides miss each other. Here both facts are one word:
//!
//! ```text
//!    waiter                                promoter
//!    CAS state: WAITING -> HALTED          CAS state: WAITING -> FIRST
//!    ok: wait(state, HALTED)               ok: done, the waiter is awake
//!    failed: I am first                    failed: it halts; again
//! ```
//!
//! One of the two CAS comes first in the word's modification order, and the other one fails. No
//! fence is needed on any machine.
//!
//! # Departures from Linux's queued lock
//!
//! * A holder does not wait for the successor's link (Linux: `smp_cond_load_relaxed(&node->next,
//!   (VAL))`): if the successor has lost its CPU between its tail CAS and its link, the section
//!   would last until it is back. The holder leaves [`GONE`] and its node behind; the successor
//!   finds that it is first (Q4).
//! * A waiter can give up: it marks its node, and a promoter skips it (Q4, F20).
//!
//! # Sources
//!
//! J. Mellor-Crummey, M. Scott, "Algorithms for Scalable Synchronization on Shared-Memory
//! Multiprocessors", ACM TOCS 1991; Linux 6.x kernel/locking/qspinlock.c and qspinlock_paravirt.h
//! (the word, the tail code, halting, hashing).

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::slot::{Entered, Node, NodeId, Slot, state};
use crate::spin::Spin;
use crate::waiters::{self, Key};

pub(crate) const LOCKED: u32 = 1 << 0;
pub(super) const PENDING: u32 = 1 << 1;
pub(crate) const HALTED: u32 = 1 << 2;
pub(super) const SPINNER: u32 = 1 << 3;
pub(super) const STEAL: u32 = 1 << 4;
pub(super) const STEALS: u32 = 0xfff0;
/// The most that `steals` counts.
pub(super) const STEALS_MAX: u32 = STEALS - STEAL;
/// In `steals`, if there is a tail: a line that is only begun.
const BEGUN: u32 = STEALS;
pub(super) const TAIL: u32 = 0xffff_0000;
const TAIL_SHIFT: u32 = 16;

const _: () = assert!(LOCKED | PENDING | HALTED | SPINNER | STEALS | TAIL == u32::MAX);

/// In a node's `next`: the waiter has left before its successor linked itself.
const GONE: u32 = u32::MAX;

/// How long a waiter that is not first spins before it halts: hardly. On a machine with a CPU for
/// each waiter it would be pleasant to spin; on all others it burns what the holder needs.
const SPIN_IN_LINE_NS: u64 = 300;
/// A kicked waiter that is not back after so long waits for a processor.
fn late_ns<P: Platform>() -> u64 {
    P::wake_ns() * 12 / 5
}
/// How long a CPU without a queue node spins before it naps between two tries.
const SPIN_WITHOUT_NODE_NS: u64 = 2_000;
/// How long a CPU naps that can't be kicked, because it has no node or the table is full.
const NAP_NS: u64 = 50_000;

/// A place in the line of a lock: this CPU's node, queued.
pub(super) struct Place<'a, P: Platform, C: Class> {
    word: &'a P::Word,
    key: Key,
    entered: Entered<P>,
    before_line: u32,
    /// It was first already while it slept: others may have passed it.
    slept: bool,
    class: PhantomData<C>,
}

/// What came of an attempt to join the line.
#[must_use]
pub(super) enum Joined<'a, P: Platform, C: Class> {
    /// The lock is taken: it was free at the last look.
    Took,
    /// In line, behind somebody or not.
    InLine(Place<'a, P, C>, Option<NodeId>),
    /// This CPU has no node for it (F7), or the platform could not settle that it joins.
    NoNode,
    /// Neither, by the deadline.
    Late,
}

impl<'a, P: Platform, C: Class> Place<'a, P, C> {
    /// Joins the line, unless `steal` still says how to take the lock as it is. The bits
    /// `before_line` are a waiter's who stands before it, and stay when it becomes empty.
    pub(super) fn join(
        word: &'a P::Word,
        steal: impl Fn(u32) -> Option<u32>,
        before_line: u32,
        deadline_ns: Option<u64>,
    ) -> Joined<'a, P, C> {
        let Some(entered) = Slot::<P>::enter() else {
            C::count(Event::LockNoNode);
            return Joined::NoNode;
        };
        match entered.level() {
            0 => {}
            1 => C::count(Event::LockUseNode2),
            2 => C::count(Event::LockUseNode3),
            _ => C::count(Event::LockUseNode4),
        }
        let node = entered.node();
        node.state.store(state::WAITING, Relaxed);
        node.next.store(0, Relaxed);
        entered.trace(word, mend::<P>);
        let mut seen = word.load(Relaxed);
        let mut beginner = Beginner::new::<P>();
        let before = loop {
            if let Some(new) = steal(seen) {
                match steal_instead::<P>(word, seen, new) {
                    Ok(_) => return Joined::Took,
                    Err(now) => seen = now,
                }
                continue;
            }
            if is_begun::<P>(seen) && beginner.deserves_time::<P>(seen & TAIL) {
                if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
                    C::count(Event::LockTimeout);
                    return Joined::Late;
                }
                seen = word.load(Relaxed);
                continue;
            }
            let begins = P::SECTIONS && seen & (TAIL | PENDING) == 0 || is_begun::<P>(seen);
            let kept = match seen & TAIL {
                _ if begins => seen & !TAIL | BEGUN,
                0 if P::SECTIONS => seen & !(STEALS | PENDING),
                _ => seen & !TAIL,
            };
            let new = kept | (entered.id().code() << TAIL_SHIFT);
            // ORDERING: AcqRel, Q-O1. (t,..) -> (me,..)
            if let Err(now) = word.compare_exchange(seen, new, AcqRel, Relaxed) {
                seen = now;
                continue;
            }
            if !begins {
                break NodeId::decode(seen >> TAIL_SHIFT);
            }
            match establish::<P>(word, entered.id()) {
                Established::Yes => break None,
                Established::Lost(now) => {
                    seen = now;
                    beginner.was_slower();
                }
                Established::Unknown => return Joined::NoNode,
            }
        };
        let key = Key::new(ptr::from_ref(word), 0);
        let place = Self { word, key, entered, before_line, slept: false, class: PhantomData };
        Joined::InLine(place, before)
    }

    /// Waits until this place is first in line. `None` if the deadline passed before: then the
    /// place is given up.
    pub(super) fn wait_turn(
        mut self,
        before: Option<NodeId>,
        deadline_ns: Option<u64>,
    ) -> Option<Self> {
        match before {
            Some(before) if self.link_behind(before) => {
                let Some(slept) = self.wait_in_line(deadline_ns) else {
                    C::count(Event::LockTimeout);
                    self.entered.leave_behind();
                    return None;
                };
                self.slept = slept;
            }
            _ => {
                self.node().since.store(stamp::<P>(), Relaxed);
                self.node().state.store(state::FIRST, Relaxed);
            }
        }
        Some(self)
    }

    fn node(&self) -> &'static Node<P> {
        self.entered.node()
    }

    /// Whether others may have passed this place already, as the first in line that slept.
    pub(super) fn slept(&self) -> bool {
        self.slept
    }

    /// Whether nobody stands behind this place, as far as anybody has linked itself.
    pub(super) fn is_last(&self) -> bool {
        self.node().next.load(Relaxed) == 0
    }

    /// How long this place has been first in line, in nanoseconds (at most 36 minutes).
    pub(super) fn first_for_ns(&self) -> u64 {
        passed_ns::<P>(&self.node().since)
    }

    /// Links this node behind its predecessor. False if that one has left already: then this place
    /// is first (Q4).
    fn link_behind(&self, before: NodeId) -> bool {
        let before = before.node::<P>();
        // ORDERING: AcqRel, Q-O2.
        if before.next.swap(self.entered.id().code(), AcqRel) != GONE {
            return true;
        }
        before.release();
        false
    }

    /// Waits, halting, until promoted. Returns whether it was asleep then; `None` if given up at
    /// the deadline.
    fn wait_in_line(&self, deadline_ns: Option<u64>) -> Option<bool> {
        let state = &self.node().state;
        let late = || deadline_ns.is_some_and(|at| P::now_ns() >= at);
        let mut spin = Spin::new(SPIN_IN_LINE_NS);
        while state.load(Relaxed) == state::WAITING && spin.again::<P>() {
            if !P::waits() && late() && self.abandon(state::WAITING) {
                return None;
            }
        }
        let mut event = Event::PvWaitNode;
        let mut seen = match state.compare_exchange(state::WAITING, state::HALTED, Relaxed, Relaxed)
        {
            Ok(_) => state::HALTED,
            Err(now) => now,
        };
        loop {
            match seen {
                state::HALTED => {
                    if late() && self.abandon(state::HALTED) {
                        return None;
                    }
                    C::count(event);
                    event = Event::PvWaitAgain;
                    P::wait(state, state::HALTED, deadline_ns);
                }
                state::FIRST_HALTED => {
                    P::wait(state, state::FIRST_HALTED, deadline_ns);
                    self.come_back();
                    return Some(true);
                }
                kicked if kicked == state::KICKED || state::is_kicking(kicked) => {
                    self.come_back();
                    return Some(true);
                }
                first => {
                    debug_assert_eq!(first, state::FIRST);
                    return Some(false);
                }
            }
            seen = state.load(Relaxed);
        }
    }

    fn abandon(&self, from: u32) -> bool {
        self.node().state.compare_exchange(from, state::ABANDONED, Relaxed, Relaxed).is_ok()
    }

    /// `FIRST_HALTED`, `KICKING`, `KICKED` -> `FIRST`: takes this waiter out of the table and the
    /// halt out of the word (Q2).
    fn come_back(&self) {
        // ORDERING: Acquire, Q-O6.
        let kicked = self.node().state.swap(state::FIRST, Acquire) != state::FIRST_HALTED;
        C::count(if kicked { Event::PvKickWake } else { Event::PvSpuriousWakeup });
        waiters::remove::<P>(self.key, self.entered.id());
        // (*,h,*,*) -> (*,0,*,*)
        self.word.fetch_and(!HALTED, Relaxed);
        if kicked {
            P::note_wake(|| passed_ns::<P>(&self.node().kicked));
        }
    }

    /// Halts until kicked, if the lock is taken. With `declared`, nobody may pass this waiter
    /// meanwhile.
    pub(super) fn halt_first(&self, declared: bool, deadline_ns: Option<u64>) {
        let state = &self.node().state;
        if !waiters::insert::<P>(self.key, self.entered.id()) {
            C::count(Event::PvHashFull);
            return P::nap(NAP_NS);
        }
        state.store(state::FIRST_HALTED, Relaxed);
        let mut seen = self.word.load(Relaxed);
        while seen & LOCKED != 0 {
            let pending = if declared { PENDING } else { 0 };
            let new = (seen & !PENDING) | HALTED | pending;
            // ORDERING: Release, Q-O3. (*,0,p,1) -> (*,1,declared,1)
            match self.word.compare_exchange(seen, new, Release, Relaxed) {
                Ok(_) => {
                    C::count(Event::PvWaitHead);
                    P::wait(state, state::FIRST_HALTED, deadline_ns);
                    return self.come_back();
                }
                Err(now) => seen = now,
            }
        }
        waiters::remove::<P>(self.key, self.entered.id());
        state.store(state::FIRST, Relaxed);
    }

    /// Takes the lock if it is free, and leaves the line.
    pub(super) fn take(self) -> Result<(), Self> {
        let mut seen = self.word.load(Relaxed);
        while seen & LOCKED == 0 {
            let last = seen >> TAIL_SHIFT == self.entered.id().code();
            // (t,h,p,0) -> (t,0,0,1), (me,h,p,0) -> (0,0,0,1)
            let left = if last { contended::<P>() } else { seen & TAIL };
            let new = LOCKED | (seen & SPINNER) | left;
            // ORDERING: Acquire: the lock is taken; and Q-O7.
            match self.word.compare_exchange(seen, new, Acquire, Relaxed) {
                Ok(_) => {
                    C::count(Event::LockQueued);
                    if !last {
                        self.hand_on(true);
                    }
                    return Ok(());
                }
                Err(now) => seen = now,
            }
        }
        Err(self)
    }

    /// Leaves the line without the lock.
    pub(super) fn give_up(self) {
        C::count(Event::LockTimeout);
        let mut seen = self.word.load(Relaxed);
        loop {
            let last = seen >> TAIL_SHIFT == self.entered.id().code();
            // (t,0,p,l) -> (t,0,0,l), (me,0,p,l) -> (0,0,0,l)
            let left = if last { contended::<P>() } else { seen & TAIL };
            let new = (seen & (LOCKED | SPINNER | self.before_line)) | left;
            // ORDERING: Acquire, Q-O7. Nobody learns anything from who leaves.
            match self.word.compare_exchange(seen, new, Acquire, Relaxed) {
                Ok(_) if last => return,
                Ok(_) => return self.hand_on(false),
                Err(now) => seen = now,
            }
        }
    }

    /// Makes the successor first, asleep if it sleeps and `holder` says that a release will follow,
    /// which can kick it.
    fn hand_on(self, holder: bool) {
        // ORDERING: Release, Q-O2. The successor's node is known by Q-O7.
        match NodeId::decode(self.node().next.swap(GONE, Release)) {
            Some(next) => self.promote(next, holder),
            // The successor will find out, and release the node (Q4).
            None => self.entered.leave_behind(),
        }
    }

    fn promote(&self, mut next: NodeId, holder: bool) {
        loop {
            let state = &next.node::<P>().state;
            let seen = state.load(Relaxed);
            let done = match seen {
                state::HALTED if holder => self.promote_asleep(next),
                state::ABANDONED => match self.skip(next) {
                    Some(after) => {
                        next = after;
                        false
                    }
                    None => true,
                },
                _ => self.promote_awake(next, seen),
            };
            if done {
                return;
            }
        }
    }

    /// `WAITING`, `HALTED` -> `FIRST`
    fn promote_awake(&self, next: NodeId, seen: u32) -> bool {
        let node = next.node::<P>();
        node.since.store(stamp::<P>(), Relaxed);
        if node.state.compare_exchange(seen, state::FIRST, Relaxed, Relaxed).is_err() {
            return false;
        }
        if seen == state::HALTED {
            C::count(Event::PvKickUnlock);
            P::kick(&raw const node.state, next.cpu());
        }
        true
    }

    /// `HALTED` -> `FIRST_HALTED`: the release will kick it.
    fn promote_asleep(&self, next: NodeId) -> bool {
        let node = next.node::<P>();
        if !waiters::insert::<P>(self.key, next) {
            C::count(Event::PvHashFull);
            return self.promote_awake(next, state::HALTED);
        }
        node.since.store(stamp::<P>(), Relaxed);
        // Who sees the bit in a release finds the entry by the lock's own order. (t,0,0,1) ->
        // (t,1,0,1)
        self.word.fetch_or(HALTED, Relaxed);
        // ORDERING: Release, Q-O5.
        if node.state.compare_exchange(state::HALTED, state::FIRST_HALTED, Release, Relaxed).is_ok()
        {
            return true;
        }
        // It has given up: the entry is still ours.
        waiters::remove::<P>(self.key, next);
        self.word.fetch_and(!HALTED, Relaxed);
        false
    }

    /// Takes a waiter that gave up out of the line. Returns who comes after it, if that one is
    /// linked.
    fn skip(&self, gone: NodeId) -> Option<NodeId> {
        let node = gone.node::<P>();
        let mut seen = self.word.load(Relaxed);
        while seen >> TAIL_SHIFT == gone.code() {
            // Nobody is behind the node, and from here on nobody can get there. (gone,..) -> (0,..)
            let kept = LOCKED | SPINNER | self.before_line;
            let new = (seen & kept) | contended::<P>();
            match self.word.compare_exchange(seen, new, Relaxed, Relaxed) {
                Ok(_) => {
                    node.release();
                    return None;
                }
                Err(now) => seen = now,
            }
        }
        // ORDERING: AcqRel, Q-O2.
        let after = NodeId::decode(node.next.swap(GONE, AcqRel));
        if after.is_some() {
            node.release();
        }
        after
    }
}

/// How long another waiter that has begun a line may take for it.
///
/// What it does is one system call, which lasts as long as the slowest running CPU takes to answer
/// an interrupt: some microseconds, or milliseconds where a hypervisor has taken that CPU away. Who
/// takes its place too soon makes it begin again, and both interrupt everybody once more.
struct Beginner {
    name: u32,
    spin: Spin,
    since_ns: u64,
    patience_ns: u64,
}

/// How long a begun line is left alone at first.
const BEGINNER_NS: u64 = 4_000_000;

impl Beginner {
    fn new<P: Platform>() -> Self {
        let spin = Spin::new(P::wake_ns());
        Self { name: 0, spin, since_ns: 0, patience_ns: BEGINNER_NS }
    }

    /// Whether the one that is now at it, as the tail says, is to be left alone. Pauses, or naps.
    fn deserves_time<P: Platform>(&mut self, name: u32) -> bool {
        if self.name != name {
            self.name = name;
            self.spin = Spin::new(P::wake_ns());
            self.since_ns = P::now_ns();
        }
        if self.spin.again::<P>() {
            return true;
        }
        if P::now_ns().saturating_sub(self.since_ns) >= self.patience_ns {
            return false;
        }
        P::nap(NAP_NS);
        true
    }

    /// This CPU has begun a line itself, and somebody was not patient enough: perhaps nobody is.
    fn was_slower(&mut self) {
        self.name = 0;
        self.patience_ns = self.patience_ns.saturating_mul(2);
    }
}

/// What has become of a line that was begun.
enum Established {
    /// It is there for good.
    Yes,
    /// A release has overwritten it, or another waiter has taken the place. This is the word now.
    Lost(u32),
    /// The platform can't tell; so it has been given up.
    Unknown,
}

/// `(me,BEGUN,..) -> (me,0,..)`, when no release can overwrite the word any more (Q7).
fn establish<P: Platform>(word: &P::Word, me: NodeId) -> Established {
    let settled = P::settle();
    let mut seen = word.load(Relaxed);
    while seen >> TAIL_SHIFT == me.code() {
        let new = seen & if settled { !STEALS } else { !(TAIL | STEALS | PENDING) };
        match word.compare_exchange(seen, new, Relaxed, Relaxed) {
            Ok(_) if settled => return Established::Yes,
            Ok(_) => return Established::Unknown,
            Err(now) => seen = now,
        }
    }
    if settled { Established::Lost(seen) } else { Established::Unknown }
}

/// Whether there is a line that is only begun (Q7).
#[inline(always)]
pub(super) fn is_begun<P: Platform>(word: u32) -> bool {
    P::SECTIONS && word & TAIL != 0 && word & STEALS == BEGUN
}

/// What is left in the word where the last has left the line: with releases that would overwrite
/// it otherwise, that it was contended lately (Q7).
#[inline(always)]
fn contended<P: Platform>() -> u32 {
    if P::SECTIONS && P::has_sections() { PENDING } else { 0 }
}

/// How to take a free lock in state `word` that nobody waits in line for, or whose line is only
/// begun: its waiter has no claim yet.
#[inline(always)]
pub(super) fn take_alone(word: u32) -> u32 {
    if word & TAIL != 0 {
        word | LOCKED
    } else if word & (PENDING | SPINNER) == 0 {
        LOCKED
    } else if word & STEALS != STEALS_MAX {
        (word | LOCKED) + STEAL
    } else {
        // Long enough: it is not contended any more.
        (word | LOCKED) & !(STEALS | PENDING)
    }
}

/// `(0,0,0,1) -> (0,0,0,0)`, if nobody waits, by a section (P11, Q7). Returns whether the lock is
/// released.
#[inline(always)]
pub(super) fn release_alone<P: Platform>(word: &P::Word) -> bool {
    // Release: the section is over, as in every release; the word is not touched again (F4). The
    // look before spares a contended lock the beginning of a section.
    P::SECTIONS && word.load(Relaxed) == LOCKED && P::replace_word(word, LOCKED, 0)
}

/// Takes the lock on the way into the line: the word changes from `seen` to `new`, if it is still
/// that.
fn steal_instead<P: Platform>(word: &P::Word, seen: u32, new: u32) -> Result<u32, u32> {
    // ORDERING: Acquire: the lock is taken (S3: nothing stronger).
    word.compare_exchange(seen, new, Acquire, Relaxed)
}

/// `(t,h,p,1) -> (t,h,1,0)` if somebody is in line, else `(0,h,p,1) -> (0,h,p,0)`: releases a lock
/// so that nobody passes the first in line. Returns the word as it was, with `PENDING` as it is.
pub(super) fn release_fairly<P: Platform>(word: &P::Word) -> u32 {
    let mut seen = word.load(Relaxed);
    loop {
        let waits = seen & TAIL != 0 && !is_begun::<P>(seen);
        let declared = seen | if waits { PENDING } else { 0 };
        // ORDERING: Release: the section is over, as in every release.
        match word.compare_exchange(seen, declared & !LOCKED, Release, Relaxed) {
            Ok(_) => return declared,
            Err(now) => seen = now,
        }
    }
}

/// Removes all waiters from a lock word: only whether it is locked stays.
///
/// # Safety
/// `word` is the word of a live lock of this platform, and nobody else uses it at the same time.
pub(super) unsafe fn mend<P: Platform>(word: *const ()) {
    // SAFETY: the caller's word.
    let word = unsafe { &*word.cast::<P::Word>() };
    word.fetch_and(LOCKED, Relaxed);
}

/// Waits for a lock without a node (F7): outside the line, by trying, for a moment with spins and
/// then with naps. Returns whether the lock is taken.
pub(super) fn wait_without_node<P: Platform, C: Class>(
    try_lock: impl Fn() -> bool,
    deadline_ns: Option<u64>,
) -> bool {
    let mut spin = Spin::new(SPIN_WITHOUT_NODE_NS);
    loop {
        if try_lock() {
            return true;
        }
        if deadline_ns.is_some_and(|at| P::now_ns() >= at) {
            C::count(Event::LockTimeout);
            return false;
        }
        if !spin.again::<P>() {
            P::nap(NAP_NS);
        }
    }
}

/// Kicks the first in line of a lock that has been released and was seen `HALTED`, if it has been
/// first for `min_ns` nanoseconds. Only the lock's address is used (F4).
///
/// A first in line that was kicked [`late_ns`] ago and has not come back waits for a processor:
/// with `offer`, this CPU offers its own.
pub(super) fn kick_first<P: Platform, C: Class>(key: Key, min_ns: u64, offer: bool) {
    // ORDERING: Acquire, Q-O4.
    P::fence(Acquire);
    kick_found::<P, C>(key, min_ns, offer);
}

/// [`kick_first`], for a caller that has seen `HALTED` with `Acquire`.
pub(super) fn kick_found<P: Platform, C: Class>(key: Key, min_ns: u64, offer: bool) {
    for waiter in waiters::find::<P>(key) {
        let node = waiter.node::<P>();
        let mut seen = node.state.load(Relaxed);
        // Whoever is at it already may have lost its CPU before it kicked (Q6).
        let is_due = || min_ns == 0 || passed_ns::<P>(&node.since) >= min_ns;
        while seen == state::FIRST_HALTED && is_due() || state::is_kicking(seen) {
            let leaves_it = P::cpu().is_none() || passed_ns::<P>(&node.kicked) < P::wake_ns();
            if state::is_kicking(seen) && leaves_it {
                C::count(Event::PvKickUnlock);
                P::kick(&raw const node.state, waiter.cpu());
                break;
            }
            match kick_halted::<P, C>(waiter, seen) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        if seen == state::KICKED && offer && passed_ns::<P>(&node.kicked) >= late_ns::<P>() {
            C::count(Event::PvYield);
            P::yield_to(Some(waiter.cpu()));
        }
    }
}

/// `FIRST_HALTED`, `KICKING` -> `KICKING`, by this CPU -> `KICKED`: kicks `waiter` if it is still
/// in state `seen`, else returns the state it is in.
fn kick_halted<P: Platform, C: Class>(waiter: NodeId, seen: u32) -> Result<(), u32> {
    let node = waiter.node::<P>();
    let me = P::cpu().map_or(0, |cpu| cpu.index() as u32 + 1);
    let kicking = state::KICKING | me << 16;
    node.state.compare_exchange(seen, kicking, Relaxed, Relaxed)?;
    C::count(Event::PvKickUnlock);
    node.kicked.store(stamp::<P>(), Relaxed);
    P::kick(&raw const node.state, waiter.cpu());
    if me != 0 {
        // Fails if the waiter is back, and has perhaps halted again; or if another release has
        // taken this over.
        let _ = node.state.compare_exchange(kicking, state::KICKED, Relaxed, Relaxed);
    }
    Ok(())
}

/// Whether the first in line was kicked [`late_ns`] ago or earlier and has not come back.
pub(super) fn first_is_late<P: Platform>(key: Key) -> bool {
    waiters::find::<P>(key).any(|waiter| {
        let node = waiter.node::<P>();
        node.state.load(Relaxed) == state::KICKED && passed_ns::<P>(&node.kicked) >= late_ns::<P>()
    })
}

/// How long the first in line has been first, if it has halted.
pub(super) fn first_halted_for_ns<P: Platform>(key: Key) -> Option<u64> {
    waiters::find::<P>(key).map(|waiter| passed_ns::<P>(&waiter.node::<P>().since)).max()
}

/// The platform's clock in units of 1,024 ns, cut to 32 bits.
fn stamp<P: Platform>() -> u32 {
    (P::now_ns() >> 10) as u32
}

/// How long ago `then` was [`stamp`]ed, in nanoseconds: at most 36 minutes, and nothing if another
/// CPU's clock is ahead (P9).
fn passed_ns<P: Platform>(then: &P::Word) -> u64 {
    let passed = stamp::<P>().wrapping_sub(then.load(Relaxed)) as i32;
    u64::from(passed.max(0) as u32) << 10
}
