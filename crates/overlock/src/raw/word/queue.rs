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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWord(u32);
bits!(LockWord);

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

    #[inline(always)]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    #[inline(always)]
    pub(crate) const fn has_queue(self) -> bool {
        self.0 >= NODES
    }

    /// The last node in the queue.
    pub(crate) const fn tail(self) -> Option<NodeId> {
        NodeId::decode(self.0 >> TAIL_SHIFT)
    }

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

    pub(crate) const fn without_note(self) -> Self {
        if self.has_queue() { self } else { Self(self.0 & !TAIL) }
    }

    /// The queue head takes the lock and leaves: `(t,..,n,0) -> (t,..,0,1)`, or
    /// `(me,..,n,0) -> (0,..,0,1)`. `strict` disables stealing past its successor.
    pub(crate) const fn taken_by_head(self, me: NodeId, strict: bool) -> Self {
        Self(self.without_head(me, strict).0 | LOCKED)
    }

    /// The queue head leaves: `(t,..,n,l) -> (t,..,0,l)`, or `(me,..,n,l) -> (0,..,0,l)`. A mark
    /// that stays may be the head's own, from before it joined.
    pub(crate) const fn without_head(self, me: NodeId, strict: bool) -> Self {
        let kept = self.0 & (LOCKED | PARKED);
        if self.ends_with(me) {
            Self(kept | if self.has_parked() { LAST } else { 0 })
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
mod tests;
