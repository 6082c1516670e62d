// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 4-byte word of a queue lock.
//!
//! ```text
//!  31      17    16       15         14          13      12      1        0
//! +----------+--------+--------+-------------+--------+----------+--------+
//! |   tail   | PARKED | ABSENT | NO_STEALING | HALTED |  steals  | LOCKED |
//! +----------+--------+--------+-------------+--------+----------+--------+
//! ```
//!
//! | field | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `LOCKED` | The lock is held. | the CPU that takes it | the release |
//! | `steals` | How often the queue head has been passed, or a few more. | each steal, or its release; with `NO_STEALING` | the queue head when it leaves the queue |
//! | `HALTED` | The queue head has halted and is in the table of waiters. | the queue head, or the holder that promoted it asleep | the queue head when it is back |
//! | `NO_STEALING` | No newcomer may pass the queue head. | the queue head; in strict order, the CPU that makes it the head | the queue head |
//! | `ABSENT` | The queue head has not come although the lock was free and reserved for it: it is passed without a count. | a waiter that passes it | the queue head when it is back |
//! | `PARKED` | A waiter outside the queue may have halted on the word. | each such waiter, before it halts, and when it takes the lock or joins the queue after that, because it can't know whether it was the last | the release, which wakes one |
//! | `tail` | The code of the last node in the queue, or zero. | each waiter that joins | the queue head, if it is also the last |
//! | instead | A note, which names no node: `NOTED`, a newcomer may halt before long; `SEEN`, a release has seen the upper half; `LAST`, who set `PARKED` may have been the last waiter. | a newcomer; a release; a waiter that has halted | a newcomer that takes the lock, joins the queue or leaves late; `LAST` by the release |
//!
//! # The lowest byte
//!
//! Where releases are cheap (P11), an uncontended lock is taken and released by accesses to the
//! lowest byte alone: on an AMD Zen 3, an uncontended pair of one width takes 3.3 ns, a pair of a
//! 16-bit compare-exchange and an 8-bit store 10, because a locked access can't be served from a
//! store of another width.
//!
//! * *Taking* sets `LOCKED` where the byte is zero. The byte is zero only if the lock is free and
//!   the count is zero: the count skips all other values whose part in the byte is zero. Where a
//!   CPU sets `NO_STEALING`, the count becomes at least 1, so that the byte is not zero.
//! * *Releasing* stores zero. While the lock is held, the byte changes only when a CPU disables
//!   stealing. Without a tail, the count is zero. So all that a release that missed a new queue can
//!   lose is the 1 that came with `NO_STEALING`.
//!   One CPU may then pass the queue head although stealing is disabled; its release counts that,
//!   so there is no second one.

use core::sync::atomic::Ordering::{self, Relaxed};

use crate::atomic::Atomic;
use crate::slot::NodeId;

/// A value of a queue lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWord(u32);

const LOCKED: u32 = 1 << 0;
const STEAL: u32 = 1 << 1;
const STEALS: u32 = 0xfff << 1;
/// The part of the count that is in the lowest byte.
const STEALS_LOW: u32 = STEALS & 0xff;
const HALTED: u32 = 1 << 13;
const NO_STEALING: u32 = 1 << 14;
const ABSENT: u32 = 1 << 15;
const PARKED: u32 = 1 << 16;
const TAIL: u32 = 0xfffe_0000;
const TAIL_SHIFT: u32 = 17;
/// In place of the tail, which names no node: a newcomer may halt before long.
const NOTED: u32 = 1 << TAIL_SHIFT;
/// In place of the tail: a release has seen `NOTED`.
const SEEN: u32 = 2 << TAIL_SHIFT;
/// In place of the tail: who set `PARKED` has not halted, and may have been the last waiter.
const LAST: u32 = 3 << TAIL_SHIFT;
/// The least tail that names a node.
const NODES: u32 = NodeId::LEAST << TAIL_SHIFT;
const _: () = assert!(
    LOCKED ^ STEALS ^ HALTED ^ NO_STEALING ^ ABSENT ^ PARKED ^ TAIL == u32::MAX,
    "the fields cover the word and do not overlap"
);
const _: () = assert!(LOCKED == 1 && PARKED | TAIL == !0xffff, "as `CheapRelease` has them");

/// Disables stealing, and makes the count odd and so the lowest byte nonzero.
const DISABLED: u32 = NO_STEALING | STEAL;

impl LockWord {
    /// The word of a free lock without waiters.
    pub(crate) const FREE: Self = Self(0);
    /// The word of a held lock without waiters.
    pub(crate) const HELD: Self = Self(LOCKED);
    /// How many steals the word can count.
    pub(crate) const STEALS_MAX: u32 = STEALS / STEAL;

    /// The value of a lock word.
    #[inline(always)]
    pub(crate) const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits of the word.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether the lock is held.
    #[inline(always)]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether the queue has any waiters.
    #[inline(always)]
    pub(crate) const fn has_queue(self) -> bool {
        self.0 >= NODES
    }

    /// The last node in the queue.
    pub(crate) const fn tail(self) -> Option<NodeId> {
        NodeId::decode(self.0 >> TAIL_SHIFT)
    }

    /// Whether `node` is the last in the queue.
    pub(crate) const fn ends_with(self, node: NodeId) -> bool {
        self.0 >> TAIL_SHIFT == node.code()
    }

    /// Whether the queue head has halted, so that a release has to see to it.
    #[inline(always)]
    pub(crate) const fn is_head_halted(self) -> bool {
        self.0 & HALTED != 0
    }

    /// For whom a free lock is reserved, if it is reserved for its queue head: a value that stays
    /// the same while newcomers come and go.
    pub(crate) const fn reservation(self) -> Option<u32> {
        if self.is_locked() || self.admits_newcomers() {
            None
        } else {
            Some(self.0 & !(TAIL | PARKED))
        }
    }

    /// A waiter takes a lock that is reserved for its queue head in vain: until the head is back,
    /// it is passed freely.
    pub(crate) const fn taken_past_reservation(self) -> Self {
        let absent = if self.has_queue() { ABSENT } else { 0 };
        Self(self.0 & !(STEALS | NO_STEALING) | absent | LOCKED)
    }

    /// Whether the queue head has been passed because it did not come.
    pub(crate) const fn is_head_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// A newcomer takes the lock past the queue: `(..,n,0) -> (..,n+1,1)`.
    const fn counted(self) -> Self {
        let counted = (self.0 | LOCKED) + STEAL;
        Self(counted + if counted & STEALS_LOW == 0 { STEAL } else { 0 })
    }

    /// Whether the queue head has disabled stealing.
    pub(crate) const fn is_stealing_disabled(self) -> bool {
        self.0 & NO_STEALING != 0
    }

    /// How often the queue head has been passed.
    pub(crate) const fn steals(self) -> u32 {
        (self.0 & STEALS) / STEAL
    }

    /// Whether a newcomer may take the lock once it is free: the queue is empty, or its head can be
    /// passed.
    #[inline(always)]
    pub(crate) const fn admits_newcomers(self) -> bool {
        !self.is_stealing_disabled() && (!self.has_queue() || self.0 & STEALS != STEALS)
            || self.is_head_absent()
    }

    /// A newcomer takes the lock: `(0,..,0) -> (0,..,1)`, or past the queue
    /// `(t,..,n,0) -> (t,..,n+1,1)`; or one that has halted on the word takes what was handed over,
    /// `(0,1,..,1,0) -> (0,0,..,0,1)`. `None` if the newcomer may not take it.
    #[inline(always)]
    pub(crate) const fn taken_by_newcomer(self, has_parked: bool) -> Option<Self> {
        if !self.is_locked() && has_parked && self.is_handed_over() {
            Some(Self(self.0 & !DISABLED | LOCKED))
        } else if self.is_locked() || !self.admits_newcomers() {
            None
        } else if self.has_queue() && !self.is_head_absent() {
            Some(self.counted())
        } else {
            Some(Self(self.0 | LOCKED))
        }
    }

    /// A newcomer joins the queue: `(t,..) -> (me,..)`. If the queue was empty, `strict` disables
    /// stealing.
    pub(crate) const fn joined_by(self, me: NodeId, strict: bool) -> Self {
        let first = !self.has_queue() && strict;
        let disabled = if first { DISABLED } else { 0 };
        Self(self.0 & !TAIL | me.code() << TAIL_SHIFT | disabled)
    }

    /// Whether the lock is, or will be, handed over to those that have halted on the word.
    #[inline(always)]
    const fn is_handed_over(self) -> bool {
        self.is_stealing_disabled() && !self.has_queue()
    }

    /// The holder is about to wake a waiter that has halted on the word, for which it reserves the
    /// lock: `(0,0,..,0,1) -> (0,1,..,1,1)`, and the waiter's mark goes. `None` if there is a
    /// queue, or no mark.
    pub(crate) const fn handed_over(self) -> Option<Self> {
        if self.has_queue() || !self.has_parked() {
            None
        } else {
            Some(Self(self.without_note().0 & !PARKED | DISABLED))
        }
    }

    /// The same word, but its next release wakes a waiter that is about to halt outside the queue.
    pub(crate) const fn parked(self) -> Self {
        let kept = if self.0 & TAIL == LAST { self.without_note() } else { self };
        Self(kept.0 | PARKED)
    }

    /// The same word, but its next release wakes the waiter for which a wake-up was meant that this
    /// CPU has had. It leaves no note behind.
    pub(crate) const fn passed_on(self) -> Self {
        Self(self.without_note().0 | PARKED | if self.has_queue() { 0 } else { LAST })
    }

    /// [`passed_on`](Self::passed_on), by a waiter that leaves: nothing is handed over to it.
    pub(crate) const fn left(self) -> Self {
        Self(if self.is_handed_over() { self.0 & !DISABLED } else { self.0 }).passed_on()
    }

    /// Whether a waiter may have halted outside the queue, so that a release has to wake one.
    #[inline(always)]
    pub(crate) const fn has_parked(self) -> bool {
        self.0 & PARKED != 0
    }

    /// Whether the next release sees what a newcomer writes into this word, however cheap releases
    /// are: some release has seen the upper half, and all since then.
    pub(crate) const fn is_seen(self) -> bool {
        self.has_parked() || self.0 >= SEEN
    }

    /// A newcomer leaves a note, if there is nothing in the upper half yet: `(0,..) -> (NOTED,..)`.
    pub(crate) const fn noted(self) -> Option<Self> {
        if self.0 & (PARKED | TAIL) == 0 { Some(Self(self.0 | NOTED)) } else { None }
    }

    /// The same word without a note.
    pub(crate) const fn without_note(self) -> Self {
        if self.has_queue() { self } else { Self(self.0 & !TAIL) }
    }

    /// The queue head takes the lock and leaves: `(t,..,n,0) -> (t,..,0,1)`, or
    /// `(me,..,n,0) -> (0,..,0,1)`. `strict` disables stealing past its successor.
    pub(crate) const fn taken_by_head(self, me: NodeId, strict: bool) -> Self {
        Self(self.without_head(me, strict).0 | LOCKED)
    }

    /// The queue head leaves: `(t,..,n,l) -> (t,..,0,l)`, or `(me,..,n,l) -> (0,..,0,l)`.
    pub(crate) const fn without_head(self, me: NodeId, strict: bool) -> Self {
        let kept = self.0 & (LOCKED | PARKED);
        if self.ends_with(me) {
            Self(kept)
        } else {
            Self(kept | self.0 & TAIL | if strict { DISABLED } else { 0 })
        }
    }

    /// The queue head is in the table and halts. With `keep`, stealing stays disabled if it was.
    pub(crate) const fn head_halted(self, keep: bool) -> Self {
        Self(self.0 & !(if keep { 0 } else { NO_STEALING }) | HALTED)
    }

    /// A release need not look for the queue head any more. With `strict`, stealing is disabled.
    pub(crate) const fn without_halted(self, strict: bool) -> Self {
        Self(self.0 & !HALTED | if strict { DISABLED } else { 0 })
    }

    /// The release: `(..,n,1) -> (..,n,0)`, or `(t,..,0,1) -> (t,..,1,0)`: the holder may have
    /// taken the lock past the queue without counting that. With `fair`, no newcomer passes the
    /// waiters in the queue, and what was handed over stays so. A note is seen; where other
    /// releases are `cheap`, so is `PARKED`.
    pub(crate) const fn released(self, fair: bool, cheap: bool) -> Self {
        if self.is_handed_over() {
            return Self(self.0 & !(LOCKED | PARKED | if fair { 0 } else { DISABLED }));
        }
        let strict = fair && self.has_queue() && !self.is_head_absent();
        let counts = self.has_queue() && !self.is_head_absent() && self.0 & STEALS == 0;
        let steal = if counts { STEAL } else { 0 };
        let tail = match self.0 & TAIL {
            nodes if nodes >= NODES => nodes,
            LAST => 0,
            _ if cheap && self.has_parked() => SEEN,
            NOTED | SEEN => SEEN,
            _ => 0,
        };
        let kept = self.0 & !(LOCKED | PARKED | TAIL) | if strict { NO_STEALING } else { 0 };
        Self((kept | tail) + steal)
    }
}

/// Changes the word `from -> to`. Returns the word that was there if it was another one.
#[inline(always)]
#[track_caller]
pub(crate) fn cas<W: Atomic<u32>>(
    word: &W,
    from: LockWord,
    to: LockWord,
    order: Ordering,
) -> Result<(), LockWord> {
    match word.compare_exchange(from.0, to.0, order, Relaxed) {
        Ok(_) => Ok(()),
        Err(now) => Err(LockWord(now)),
    }
}

/// Changes the word to what `new` makes of it, until that succeeds or `new` returns `None`. Returns
/// the word before and after, or the word that `new` refused.
#[inline(always)]
#[track_caller]
pub(crate) fn update<W: Atomic<u32>>(
    word: &W,
    order: Ordering,
    new: impl Fn(LockWord) -> Option<LockWord>,
) -> Result<(LockWord, LockWord), LockWord> {
    let mut seen = LockWord(word.load(Relaxed));
    while let Some(to) = new(seen) {
        match cas(word, seen, to, order) {
            Ok(()) => return Ok((seen, to)),
            Err(now) => seen = now,
        }
    }
    Err(seen)
}

/// What individual read-modify-writes do to a word.
pub(crate) mod rmw {
    use super::{ABSENT, DISABLED, HALTED, LOCKED, PARKED};

    /// `fetch_sub`: the release, when there is no steal to count. Also a held lock without waiters.
    pub(crate) const RELEASE: u32 = LOCKED;
    /// `fetch_or`: the queue head disables stealing. It makes the count odd.
    pub(crate) const DISABLE_STEALING: u32 = DISABLED;
    /// `fetch_and`: the queue head has come back.
    pub(crate) const HEAD_IS_BACK: u32 = !(HALTED | ABSENT);
    /// `fetch_and`: there are no waiters any more.
    pub(crate) const NO_WAITERS: u32 = LOCKED;
    /// The bits of which a release finds one if it has to wake a waiter.
    pub(crate) const SLOW: u32 = HALTED | PARKED;
    /// The bit that a release clears besides `LOCKED`.
    pub(crate) const WAKES: u32 = PARKED;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 0x0105;
    const OTHER: u32 = 0x0209;

    /// Every possible word with this tail.
    fn words(tail: u32) -> impl Iterator<Item = LockWord> {
        (0..1 << TAIL_SHIFT).map(move |low| LockWord::new(tail << TAIL_SHIFT | low))
    }

    fn me() -> NodeId {
        NodeId::decode(ME).expect("no tail is zero")
    }

    #[test]
    fn newcomers_take_a_free_lock_that_admits_them_and_count() {
        for word in words(0).chain(words(OTHER)) {
            let full = word.has_queue() && word.steals() == LockWord::STEALS_MAX;
            let admits = !word.is_stealing_disabled() && !full || word.is_head_absent();
            let Some(taken) = word.taken_by_newcomer(false) else {
                assert!(word.is_locked() || !admits, "{:#x}", word.bits());
                continue;
            };
            assert!(admits && !word.is_locked(), "{:#x}", word.bits());
            let skips = word.bits() & STEALS_LOW == STEALS_LOW;
            let counts = word.has_queue() && !word.is_head_absent();
            let steal = if counts { 1 + u32::from(skips) } else { 0 };
            assert_eq!(taken.bits(), word.bits() + LOCKED + steal * STEAL, "{:#x}", word.bits());
        }
    }

    #[test]
    fn a_release_changes_the_count_only_where_a_steal_may_be_missing() {
        let plain = |word: &LockWord| word.is_locked() && !word.is_handed_over();
        for word in words(0).chain(words(OTHER)).filter(plain) {
            let after = word.released(false, true);
            let counts = word.has_queue() && !word.is_head_absent();
            let missing = u32::from(counts && word.steals() == 0);
            assert_eq!(after.steals(), word.steals() + missing, "{:#x}", word.bits());
            let others = !(LOCKED | STEALS | PARKED);
            assert_eq!(after.without_note().bits() & others, word.bits() & others);
            assert!(!after.is_locked() && !after.has_parked());
            let strict = if counts { NO_STEALING } else { 0 };
            assert_eq!(word.released(true, true).bits(), after.bits() | strict);
        }
    }

    /// A note is no queue. Once a release has seen it, it stays, until a waiter wipes it.
    #[test]
    fn a_note_is_seen_and_the_last_waiter_leaves_none() {
        let plain = |word: &LockWord| !word.has_parked() && !word.is_handed_over();
        for word in words(0).filter(plain) {
            let free = word.released(false, true);
            let noted = word.noted().expect("the upper half is zero");
            assert!(!noted.is_seen() && !noted.has_queue() && noted.noted().is_none());
            assert_eq!(noted.without_note(), word);
            assert_eq!((noted.tail(), noted.reservation()), (None, word.reservation()));
            let seen = noted.released(false, true);
            assert!(seen.is_seen() && seen.released(false, true) == seen);
            assert_eq!(seen.without_note(), free);
            assert_eq!(seen.joined_by(me(), true), free.joined_by(me(), true));
            assert!(!word.parked().released(false, false).is_seen());
            for word in [word, noted, word.passed_on()] {
                let parked = word.parked();
                assert!(parked.is_seen() && parked.has_parked() && !parked.has_queue());
                assert_eq!(parked.released(false, true), seen);
                let passed = parked.passed_on();
                assert!(passed.is_seen() && passed.has_parked() && !passed.has_queue());
                assert_eq!(passed.released(false, true), free);
            }
        }
        for word in words(OTHER) {
            assert!(word.is_seen() && word.without_note() == word && word.noted().is_none());
            assert_eq!(word.passed_on(), word.parked());
        }
    }

    #[test]
    fn what_is_handed_over_is_for_those_that_have_halted() {
        let held = LockWord::HELD.parked();
        assert_eq!(LockWord::HELD.handed_over(), None);
        assert_eq!(held.joined_by(me(), false).handed_over(), None);
        let handed = held.handed_over().expect("a waiter has halted, and there is no queue");
        assert!(handed.is_locked() && !handed.has_parked());
        assert_eq!(handed.released(false, true), LockWord::FREE);
        let free = handed.parked().released(true, true);
        assert!(!free.is_locked() && free.bits() & 0xff != 0, "the fast path takes nothing");
        assert!(free.reservation().is_some() && free.taken_by_newcomer(false).is_none());
        assert_eq!(free.taken_by_newcomer(true), Some(LockWord::HELD));
        assert_eq!(free.taken_past_reservation(), LockWord::HELD);
        assert_eq!(free.left(), LockWord::FREE.passed_on());
    }

    #[test]
    fn without_a_queue_nothing_is_left_that_a_cheap_release_would_lose() {
        for word in words(ME) {
            for left in [word.without_head(me(), true), word.taken_by_head(me(), true)] {
                assert!(!left.has_queue());
                let kept = LOCKED | PARKED;
                assert_eq!(left.bits() & !kept, 0, "{:#x}", word.bits());
            }
        }
    }

    #[test]
    fn a_head_that_leaves_others_resets_the_count_and_what_it_had_set() {
        for word in words(OTHER) {
            for strict in [false, true] {
                let left = word.taken_by_head(me(), strict);
                let disabled = if strict { DISABLED } else { 0 };
                let expected = OTHER << TAIL_SHIFT | disabled | LOCKED | word.bits() & PARKED;
                assert_eq!(left.bits(), expected, "{:#x}", word.bits());
            }
        }
    }

    #[test]
    fn a_waiter_that_joins_is_the_tail_and_disables_stealing_as_the_head_of_a_strict_queue() {
        for word in words(0).chain(words(OTHER)) {
            for strict in [false, true] {
                let joined = word.joined_by(me(), strict);
                assert_eq!(joined.tail().map(NodeId::code), Some(ME));
                let set = if strict && !word.has_queue() { DISABLED } else { 0 };
                assert_eq!(joined.bits() & !TAIL, word.bits() & !TAIL | set);
            }
        }
    }

    /// So a CPU that looks only at the lowest byte takes no lock that it must not take.
    #[test]
    fn the_lowest_byte_is_zero_only_without_a_count_and_with_stealing() {
        let mut word = LockWord::new(OTHER << TAIL_SHIFT);
        let mut steals = 0;
        while let Some(taken) = word.taken_by_newcomer(true) {
            word = taken.released(false, true);
            assert_ne!(word.bits() & 0xff, 0, "{:#x}", word.bits());
            steals += 1;
        }
        let skipped = LockWord::STEALS_MAX >> 7;
        assert_eq!(steals, LockWord::STEALS_MAX - skipped);
        let counted = |word: &LockWord| word.steals() == 0 || word.bits() & STEALS_LOW != 0;
        let open = words(OTHER)
            .filter(|word| !word.is_locked() && !word.is_stealing_disabled())
            .filter(|word| !word.is_head_absent());
        for word in open.filter(counted) {
            for new in [
                LockWord::new(word.bits() | rmw::DISABLE_STEALING),
                LockWord::new(0).joined_by(me(), true),
                word.without_halted(true),
                word.without_head(me(), true),
                word.released(true, true),
            ] {
                assert!(new.is_stealing_disabled() && new.bits() & 0xff != 0, "{:#x}", new.bits());
            }
        }
    }

    #[test]
    fn flags_change_alone() {
        for word in words(0).chain(words(OTHER)) {
            let bits = word.bits();
            assert_eq!(word.head_halted(true).bits(), bits | HALTED);
            assert_eq!(word.head_halted(false).bits(), bits & !NO_STEALING | HALTED);
            assert_eq!(word.without_halted(false).bits(), bits & !HALTED);
            assert_eq!(word.without_halted(true).bits(), bits & !HALTED | DISABLED);
            assert_eq!(word.without_halted(false).bits(), bits & !HALTED);
        }
    }
}
