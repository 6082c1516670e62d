//! The 4-byte word of a read-write lock, and its transitions.
//!
//! ```text
//!    31       30      29      28                1         0
//! +--------+--------+-------+------------------+------------+
//! | BARRED | ASLEEP | FIRST |           holds               |
//! |        |        |       |  readers         | UPGRADABLE |
//! +--------+--------+-------+------------------+------------+
//! ```
//!
//! | `holds` | meaning |
//! |---|---|
//! | 0 | The lock is free. |
//! | below `LIMIT` | So many CPUs read. With `UPGRADABLE`, one of them may upgrade. |
//! | `WRITTEN` | A CPU writes. |
//! | `CLAIMED` | A CPU writes, and its release is to make it the readers' turn. |
//! | `TURN` | The lock is free, and it is the readers' turn. |
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `BARRED` | Writers wait, or the upgradable reader does to upgrade. Others that want to read stay out. | each of them that halts, or has halted and writes | the release of a writer, and what gives the wait up |
//! | `FIRST` | Beside `BARRED`, never beside `UPGRADABLE`: a writer has waited for long, or is handed the lock. Others that want to write and have not halted stay out, too. | a writer that halts, a fair release | a writer that takes the lock, and what clears `BARRED` |
//! | `ASLEEP` | CPUs have halted that bar no others: readers, and while one reads as upgradable, those that want the same, and writers. | each of them | what lets them in, which kicks them |

use core::sync::atomic::Ordering::{self, Relaxed};

use crate::atomic::Atomic;
use crate::park::Class;

/// A value of a read-write lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RwWord(u32);
bits!(RwWord);

const BARRED: u32 = 1 << 31;
const ASLEEP: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const HOLDS: u32 = FIRST - 1;
const UPGRADABLE: u32 = 1;
pub(crate) const READER: u32 = 2;
const WRITTEN: u32 = HOLDS;
const CLAIMED: u32 = HOLDS - 1;
const TURN: u32 = HOLDS - 2;
/// What is held for reading is below it.
const LIMIT: u32 = HOLDS - 3;
/// What the upgradable reader adds.
const UPGRADABLE_READER: u32 = READER | UPGRADABLE;
const _: () = assert!(LIMIT.is_multiple_of(READER) && BARRED | ASLEEP | FIRST | HOLDS == u32::MAX);

/// What a CPU wants a read-write lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// To read, beside others.
    Read,
    /// To read beside others, and perhaps to upgrade.
    Upgradable,
    /// To write, alone.
    Write,
    /// To write, as the upgradable reader.
    Upgrade,
}

/// Whom a CPU may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// None: it stays out while it is another's turn.
    Waiting,
    /// As a writer that has halted, those that have not.
    Halted,
    /// Those whose turn it is, but who have not taken the free lock yet.
    Late,
    /// As a reader, all waiters.
    All,
}

/// Whom a change of the word lets in: the classes of waiters to kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kicks(u8);

impl Kicks {
    pub(crate) const NONE: Self = Self(0);
    const READERS: Self = Self(1 << Want::Read as u8);
    /// One of those that want to read as upgradable.
    const UPGRADABLE: Self = Self(1 << Want::Upgradable as u8);
    const WRITER: Self = Self(1 << Want::Write as u8);
    /// All that go first: the upgradable reader that upgrades, and writers that have halted as
    /// such.
    const FIRST: Self = Self(1 << Want::Upgrade as u8);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn only_if(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
    }

    pub(crate) const fn include(self, want: Want) -> bool {
        self.0 & 1 << want as u8 != 0
    }
}

impl Want {
    /// The class as which such a CPU waits.
    pub(crate) const fn class(self) -> Class {
        Class::new(self as u8)
    }
}

impl RwWord {
    pub(crate) const FREE: Self = Self(0);
    /// The word of a lock that is held for writing, without waiters.
    pub(crate) const WRITTEN: Self = Self(WRITTEN);
    /// How many CPUs can read at a time.
    pub(crate) const READERS_MAX: u32 = (LIMIT - 1) / READER;

    #[inline(always)]
    const fn holds(self) -> u32 {
        self.0 & HOLDS
    }

    const fn is_barred(self) -> bool {
        self.0 & BARRED != 0
    }

    const fn has_asleep(self) -> bool {
        self.0 & ASLEEP != 0
    }

    /// How many CPUs read, the upgradable one included.
    #[inline(always)]
    pub(crate) const fn readers(self) -> u32 {
        if self.holds() < LIMIT { self.holds() / READER } else { 0 }
    }

    #[inline(always)]
    pub(crate) const fn is_written(self) -> bool {
        self.holds() >= CLAIMED
    }

    /// Whether the lock is not held.
    #[inline(always)]
    pub(crate) const fn is_free(self) -> bool {
        self.holds() == 0 || self.holds() == TURN
    }

    const fn is_upgradable(self) -> bool {
        self.holds() < LIMIT && self.0 & UPGRADABLE != 0
    }

    pub(crate) const fn has_first(self) -> bool {
        self.0 & FIRST != 0
    }

    /// Whether the lock is free, and it is the turn of others than those that want this.
    pub(crate) const fn is_kept_from(self, want: Want, pass: Pass) -> bool {
        match want {
            Want::Read | Want::Upgradable => self.holds() == 0 && self.is_barred(),
            Want::Write => self.is_free() && self.taken(want, pass).is_none(),
            Want::Upgrade => false,
        }
    }

    /// Whether as many read as can.
    pub(crate) const fn is_full(self) -> bool {
        self.readers() == Self::READERS_MAX
    }

    /// Those to kick when all waiters may come, and no bar is left.
    const fn all(self) -> Kicks {
        Kicks::READERS.and(Kicks::UPGRADABLE).only_if(self.has_asleep()).and(self.writers())
    }

    /// The writers to kick when no bar is left.
    const fn writers(self) -> Kicks {
        Kicks::WRITER.only_if(self.is_barred()).and(self.first())
    }

    /// The writers to kick when none goes first any more.
    const fn first(self) -> Kicks {
        Kicks::FIRST.only_if(self.has_first())
    }

    /// A reader takes a lock for which no CPU waits. `None` if there is more to look at.
    #[inline(always)]
    pub(crate) const fn read_at_once(self) -> Option<Self> {
        if self.0 < LIMIT - READER { Some(Self(self.0 + READER)) } else { None }
    }

    /// A CPU takes the lock. `None` if it may not.
    pub(crate) const fn taken(self, want: Want, pass: Pass) -> Option<(Self, Kicks)> {
        match want {
            Want::Read => self.taken_to_read(READER, pass),
            Want::Upgradable => self.taken_to_read(UPGRADABLE_READER, pass),
            Want::Write => {
                let may = match pass {
                    Pass::Waiting => self.holds() == 0 && !self.has_first(),
                    Pass::Halted => self.holds() == 0,
                    Pass::Late | Pass::All => self.is_free(),
                };
                // Others that go first do so again, as long as they wait.
                let flags = self.0 & (BARRED | ASLEEP);
                if may { Some((Self(WRITTEN | flags), self.first())) } else { None }
            }
            Want::Upgrade if self.holds() == UPGRADABLE_READER => {
                // Writers that wait beside an upgradable reader are among those asleep.
                let bar = if self.has_asleep() { BARRED } else { 0 };
                Some((Self(self.0 & !HOLDS | WRITTEN | bar), Kicks::NONE))
            }
            Want::Upgrade => None,
        }
    }

    const fn taken_to_read(self, holds: u32, pass: Pass) -> Option<(Self, Kicks)> {
        let (seen, flags) = (self.holds(), self.0 & !HOLDS);
        if seen == TURN {
            // The writers that wait set their bar again.
            return Some((Self(holds | flags & ASLEEP), self.writers()));
        }
        let is_admitted = match pass {
            Pass::Waiting | Pass::Halted => !self.is_barred(),
            Pass::Late => !self.is_barred() || seen == 0,
            Pass::All => true,
        };
        let upgrades = holds & UPGRADABLE;
        if !is_admitted || seen & upgrades != 0 || seen + holds >= LIMIT {
            return None;
        }
        if upgrades != 0 && self.is_barred() {
            // Only one that is to upgrade bars others beside an upgradable reader.
            let readers = Kicks::READERS.only_if(self.has_asleep());
            return Some((Self((seen + holds) | ASLEEP), readers.and(self.first())));
        }
        Some((Self((seen + holds) | flags), Kicks::NONE))
    }

    /// The same word, if the CPU that takes it may be one of several that have halted, of which
    /// only one was kicked: others are owed a kick.
    pub(crate) const fn owing(self, want: Want) -> Self {
        Self(match want {
            Want::Read => self.0,
            Want::Upgradable => self.0 | ASLEEP,
            Want::Write | Want::Upgrade => self.0 | BARRED,
        })
    }

    /// A CPU that may not take the lock halts. It `claims` the next turn if it has been kicked
    /// before, for long: as a reader that still finds a writer for all readers, and as a writer for
    /// those that have halted.
    pub(crate) const fn awaited(self, want: Want, claims: bool) -> Self {
        let reads = matches!(want, Want::Read | Want::Upgradable);
        if reads && claims && self.is_written() {
            return Self(self.0 & !HOLDS | ASLEEP | CLAIMED);
        }
        if matches!(want, Want::Upgrade) || !reads && !self.is_upgradable() {
            let first = if matches!(want, Want::Write) && claims { FIRST } else { 0 };
            return Self(self.0 | BARRED | first);
        }
        Self(self.0 | ASLEEP)
    }

    /// Whether a writer halts as one that goes first. If it `claims` the next turn, it does, unless
    /// it waits for an upgradable reader.
    pub(crate) const fn is_first(self, want: Want, claims: bool) -> bool {
        matches!(want, Want::Write) && claims && !self.is_upgradable()
    }

    /// A reader has left: whom it kicks, if this was the word before.
    #[inline(always)]
    pub(crate) const fn left_by_reader(self) -> Kicks {
        if !self.is_barred() {
            return Kicks::NONE;
        }
        match self.holds() - READER {
            0 if self.has_first() => Kicks::FIRST,
            0 => Kicks::WRITER,
            UPGRADABLE_READER => Kicks::FIRST,
            _ => Kicks::NONE,
        }
    }

    pub(crate) const fn left_by_upgradable(self) -> (Self, Kicks) {
        Self(self.0 - UPGRADABLE_READER).without_upgradable()
    }

    /// There is no upgradable reader any more.
    const fn without_upgradable(self) -> (Self, Kicks) {
        if self.is_barred() {
            return (self, Kicks::WRITER.only_if(self.holds() == 0));
        }
        let kicks = Kicks::UPGRADABLE.and(Kicks::WRITER).only_if(self.has_asleep());
        (Self(self.0 & !ASLEEP), kicks)
    }

    pub(crate) const fn left_by_writer(self) -> (Self, Kicks) {
        if self.holds() == CLAIMED {
            let flags = self.0 & (BARRED | FIRST);
            return (Self(TURN | flags), Kicks::READERS.and(Kicks::UPGRADABLE));
        }
        if self.has_first() { (Self(self.0 & !HOLDS), Kicks::FIRST) } else { self.left_to_all() }
    }

    /// The writer leaves, and hands over to none.
    pub(crate) const fn left_to_all(self) -> (Self, Kicks) {
        (Self::FREE, self.all())
    }

    /// Whether the next turn, after the writer's, is for some that have halted.
    pub(crate) const fn is_claimed(self) -> bool {
        self.holds() == CLAIMED || self.has_first()
    }

    /// The writer is about to hand the lock over to readers that have halted, or to a writer that
    /// has, and kicks them first. `None` if none has.
    pub(crate) fn handed_over(self, want: Want) -> Option<(Self, Kicks)> {
        let readers = Kicks::READERS.and(Kicks::UPGRADABLE);
        let unclaimed = Self(self.0 | WRITTEN);
        match want {
            Want::Write => self.is_barred().then(|| (unclaimed.awaited(want, true), Kicks::WRITER)),
            _ => self.has_asleep().then(|| (self.awaited(want, true), readers)),
        }
    }

    /// The holder keeps the lock for less.
    pub(crate) const fn downgraded(self, from: Want, to: Want) -> (Self, Kicks) {
        match (from, to) {
            (Want::Upgradable, _) => Self(self.0 - UPGRADABLE).without_upgradable(),
            (_, Want::Upgradable) => {
                let asleep = if self.0 & (ASLEEP | BARRED) != 0 { ASLEEP } else { 0 };
                let readers = Kicks::READERS.only_if(self.has_asleep());
                (Self(UPGRADABLE_READER | asleep), readers.and(self.first()))
            }
            _ => (Self(READER), self.all()),
        }
    }

    /// Those whose turn it is have not come for a long time: the lock is free for all.
    pub(crate) const fn without_turn(self) -> (Self, Kicks) {
        if self.holds() == TURN {
            (Self(self.0 & !HOLDS), self.first())
        } else {
            (Self::FREE, self.all())
        }
    }

    /// A CPU that has halted gives its wait up, and passes a kick that it may have got on.
    pub(crate) const fn given_up(self, want: Want) -> (Self, Kicks) {
        let readers = Kicks::READERS.only_if(self.has_asleep());
        // Those that have claimed the turn, too, do so again if they miss it.
        let unclaimed = if self.holds() == CLAIMED { self.0 | WRITTEN } else { self.0 };
        match want {
            Want::Read => (Self(unclaimed), Kicks::NONE),
            Want::Upgradable => (Self(unclaimed | ASLEEP), Kicks::NONE),
            Want::Upgrade => (Self(self.0 & !BARRED), readers),
            Want::Write if self.is_upgradable() => (Self(self.0 | ASLEEP), Kicks::NONE),
            Want::Write if self.is_written() || self.holds() == TURN => {
                (Self(self.0 & !FIRST | BARRED), self.first())
            }
            Want::Write => (Self(self.holds()), self.all().and(Kicks::WRITER)),
        }
    }

    /// All waiters are gone. Who holds the lock, and for what, stays as it was.
    pub(crate) const fn without_waiters(self) -> Self {
        Self(match self.holds() {
            CLAIMED => WRITTEN,
            TURN => 0,
            holds => holds,
        })
    }
}

/// Changes the word `from -> to`. Returns the word that was there if it was another one.
#[inline(always)]
#[track_caller]
pub(crate) fn cas<W: Atomic<u32>>(
    word: &W,
    from: RwWord,
    to: RwWord,
    order: Ordering,
) -> Result<(), RwWord> {
    word.compare_exchange(from.0, to.0, order, Relaxed).map(drop).map_err(RwWord)
}

/// Changes the word to what `new` makes of it, until that succeeds or `new` returns `None`. Returns
/// what else `new` has returned.
#[inline(always)]
#[track_caller]
pub(crate) fn update<W: Atomic<u32>, T>(
    word: &W,
    order: Ordering,
    new: impl Fn(RwWord) -> Option<(RwWord, T)>,
) -> Option<T> {
    let mut seen = RwWord(word.load(Relaxed));
    loop {
        let (to, result) = new(seen)?;
        match cas(word, seen, to, order) {
            Ok(()) => return Some(result),
            Err(now) => seen = now,
        }
    }
}
