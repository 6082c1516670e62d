// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 4-byte word of a read-write lock.
//!
//! ```text
//!  31    14 13    8    7       6        5         4        3       2         1          0
//! +--------+-------+-------+---------+--------+----------+--------+-----+------------+--------+
//! |readers | passed| CROWD | FOLDING | BIASED | U_HALTED | HALTED | DUE | UPGRADABLE | WRITER |
//! +--------+-------+-------+---------+--------+----------+--------+-----+------------+--------+
//! ```
//!
//! | field | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `WRITER` | The lock is held for writing. | the CPU that takes it | its release |
//! | `UPGRADABLE` | A CPU holds the lock for reading and may upgrade. | that CPU | its release, its upgrade |
//! | `DUE` | That CPU upgrades: no other reader comes. | that CPU | that CPU |
//! | `HALTED` | The queue head has halted. | the queue head | the queue head when it is back; a release that kicks it |
//! | `U_HALTED` | The upgrading CPU has halted. | that CPU | that CPU |
//! | `BIASED` | Readers may be counted elsewhere (`raw/read_write/bias.rs`). | a reader that has the queue | the queue head |
//! | `FOLDING` | The queue head adds up the readers that were counted elsewhere. | the queue head | the queue head |
//! | `CROWD` | Readers have halted outside the queue. | each of them | a CPU that finds room for readers |
//! | `passed` | 0: no queue head waits. 63: it is passed no more. 62: nor now, but when a writer kicks it, 32 newcomers may pass it: it becomes 30, and each of them adds one. | the queue head; a writer that kicks it; each CPU that passes it | the queue head |
//! | `readers` | How many hold the lock for reading, less those counted elsewhere: a signed number. | | |

use core::sync::atomic::Ordering::{self, Relaxed};

use crate::atomic::Atomic;

/// A value of a read-write lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RwWord(u32);

const WRITER: u32 = 1 << 0;
const UPGRADABLE: u32 = 1 << 1;
const DUE: u32 = 1 << 2;
const HALTED: u32 = 1 << 3;
const U_HALTED: u32 = 1 << 4;
pub(crate) const BIASED: u32 = 1 << 5;
const FOLDING: u32 = 1 << 6;
const CROWD: u32 = 1 << 7;
const PASS: u32 = 1 << 8;
const PASSED: u32 = 0x3f << 8;
/// The count while the queue head is not to be passed, until a release kicks it.
const BARRED: u32 = PASSED - PASS;
const READER: u32 = 1 << READER_SHIFT;
const READER_SHIFT: u32 = 14;
const READERS: u32 = !0 << READER_SHIFT;
const _: () = assert!(
    WRITER ^ UPGRADABLE ^ DUE ^ HALTED ^ U_HALTED ^ BIASED ^ FOLDING ^ CROWD ^ PASSED ^ READERS
        == u32::MAX,
    "the fields cover the word and do not overlap"
);

/// What a CPU wants a read-write lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// To read, beside others.
    Read,
    /// To read beside others, and perhaps to upgrade.
    Upgradable,
    /// To write, alone.
    Write,
}

impl RwWord {
    /// The word of a free lock.
    pub(crate) const FREE: Self = Self(0);
    /// The word of a lock that is held for writing, without waiters.
    pub(crate) const WRITTEN: Self = Self(WRITER);
    /// How many readers the word may count. With those counted elsewhere, which are as many at the
    /// most, they fit in the field with its sign.
    pub(crate) const READERS_MAX: i32 = 1 << 16;
    /// In how many of its halts a queue head is passed. Any value is correct.
    pub(crate) const PASSED_HALTS: u32 = 16;
    /// How often it is passed then, from the kick until it is awake.
    pub(crate) const PASSES: u32 = 32;

    /// The value of a lock's word.
    #[inline(always)]
    pub(crate) const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits of the word.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// How many readers the word counts. Less than none where others are counted elsewhere.
    #[inline(always)]
    pub(crate) const fn readers(self) -> i32 {
        self.0.cast_signed() >> READER_SHIFT
    }

    /// Whether the lock is held for writing.
    #[inline(always)]
    pub(crate) const fn is_written(self) -> bool {
        self.0 & WRITER != 0
    }

    /// Whether a CPU holds the lock as upgradable.
    pub(crate) const fn is_upgradable(self) -> bool {
        self.0 & UPGRADABLE != 0
    }

    /// Whether readers may be counted elsewhere.
    #[inline(always)]
    pub(crate) const fn is_biased(self) -> bool {
        self.0 & BIASED != 0
    }

    /// Whether readers may be counted elsewhere, or were until a moment ago.
    #[inline(always)]
    pub(crate) const fn may_have_notes(self) -> bool {
        self.0 & (BIASED | FOLDING) != 0
    }

    /// Whether the queue head is adding up the readers, so that their number is not known.
    pub(crate) const fn is_folding(self) -> bool {
        self.0 & FOLDING != 0
    }

    /// Whether the queue head has halted.
    #[inline(always)]
    pub(crate) const fn is_head_halted(self) -> bool {
        self.0 & HALTED != 0
    }

    /// Whether the upgrading CPU has halted.
    pub(crate) const fn is_upgrader_halted(self) -> bool {
        self.0 & U_HALTED != 0
    }

    /// Whether readers have halted outside the queue, or have until a moment ago.
    #[inline(always)]
    pub(crate) const fn has_crowd(self) -> bool {
        self.0 & CROWD != 0
    }

    /// Whether the crowd should come: newcomers that read have room, and pass no queue head.
    #[inline(always)]
    pub(crate) const fn invites_crowd(self) -> bool {
        self.0 & PASSED == 0 && self.0 & (WRITER | DUE | FOLDING) == 0
    }

    /// A reader halts outside the queue. `None` if newcomers may come.
    pub(crate) const fn crowded(self) -> Option<Self> {
        let is_barred = self.0 & (WRITER | DUE | FOLDING) != 0 || self.0 & PASSED >= BARRED;
        if is_barred { Some(Self(self.0 | CROWD)) } else { None }
    }

    /// Whether a CPU has halted until the last reader leaves.
    #[inline(always)]
    const fn has_halted(self) -> bool {
        self.0 & (HALTED | U_HALTED) != 0
    }

    /// Whether newcomers may pass the queue head, or there is none.
    #[inline(always)]
    const fn admits_newcomers(self) -> bool {
        self.0 & FOLDING == 0 && self.0 & PASSED < BARRED
    }

    /// Whether the lock, as it is held, leaves room for one that wants it so. (A biased lock has
    /// readers that the word does not count.)
    #[inline(always)]
    const fn has_room_for(self, want: Want) -> bool {
        match want {
            Want::Read => self.0 & (WRITER | DUE) == 0 && self.readers() < Self::READERS_MAX,
            Want::Upgradable => self.0 & (WRITER | UPGRADABLE | BIASED) == 0,
            Want::Write => self.0 & (WRITER | UPGRADABLE | BIASED | READERS) == 0,
        }
    }

    /// What taking the lock adds to the word.
    #[inline(always)]
    const fn taking(want: Want) -> u32 {
        match want {
            Want::Read => READER,
            Want::Upgradable => UPGRADABLE,
            Want::Write => WRITER,
        }
    }

    /// A newcomer takes the lock, and counts itself if it passes the queue head. `None` if it may
    /// not.
    #[inline(always)]
    pub(crate) const fn taken_by_newcomer(self, want: Want) -> Option<Self> {
        if !self.has_room_for(want) || !self.admits_newcomers() {
            return None;
        }
        // R7: without a queue head, the change that made the room kicks the crowd.
        let (pass, crowd) = if self.0 & PASSED == 0 { (0, CROWD) } else { (PASS, 0) };
        Some(Self((self.0 & !crowd).wrapping_add(Self::taking(want)) + pass))
    }

    /// The queue head takes the lock: `(..,p,h,..) -> (..,0,0,..)`. `None` if there is no room.
    pub(crate) const fn taken_by_head(self, want: Want) -> Option<Self> {
        if !self.has_room_for(want) {
            return None;
        }
        let crowd = if let Want::Write = want { 0 } else { CROWD };
        Some(Self((self.0 & !(PASSED | HALTED | crowd)).wrapping_add(Self::taking(want))))
    }

    /// One that reads already takes the lock once more, past any waiter. `None` if the lock is held
    /// for writing, or the number of readers is not known: then this CPU may be one of them.
    pub(crate) const fn taken_again(self) -> Option<Self> {
        let reads = self.readers() != 0 || self.has_room_for(Want::Read) && self.admits_newcomers();
        if self.0 & (WRITER | FOLDING) != 0 || !reads || self.readers() >= Self::READERS_MAX {
            None
        } else {
            Some(Self(self.0.wrapping_add(READER)))
        }
    }

    /// The last reader leaves and kicks the queue head: `(..,h,1) -> (..,0,0)`. `None` if others
    /// stay or no CPU has halted, and a subtraction does.
    #[inline(always)]
    pub(crate) const fn left_by_last_reader(self) -> Option<Self> {
        if self.has_halted() && self.readers() == 1 {
            Some(Self(self.0.wrapping_sub(READER) & !HALTED))
        } else {
            None
        }
    }

    /// Whether a CPU may have halted until the writer leaves.
    #[inline(always)]
    pub(crate) const fn has_waiters(self) -> bool {
        self.0 & (HALTED | CROWD) != 0
    }

    /// The writer leaves and kicks the queue head, if that has halted. Newcomers may pass it while
    /// it wakes up.
    pub(crate) const fn left_by_writer(self) -> Self {
        let passes =
            if self.0 & HALTED != 0 && self.0 & PASSED == BARRED { Self::PASSES } else { 0 };
        let left = Self((self.0 & !(WRITER | HALTED)) - passes * PASS);
        if left.invites_crowd() { Self(left.0 & !CROWD) } else { left }
    }

    /// The queue head is passed no more; with `for_good`, not even when it is kicked.
    pub(crate) const fn barred(self, for_good: bool) -> Self {
        Self(self.0 & !PASSED | if for_good { PASSED } else { BARRED })
    }

    /// Whether the reader that found this word when it left has to kick.
    #[inline(always)]
    pub(crate) const fn was_last_of(self) -> bool {
        self.has_halted() && self.readers() == 1
    }

    /// The upgrading CPU takes the lock for writing: `(u,d,g,0) -> (w)`. `None` while others read.
    pub(crate) const fn upgraded(self) -> Option<Self> {
        if self.0 & READERS != 0 {
            return None;
        }
        Some(Self(self.0 & !(UPGRADABLE | DUE | U_HALTED) | WRITER))
    }

    /// The holder keeps the lock for less. The queue head may now have room, and is kicked.
    pub(crate) const fn downgraded(self, from: Want, to: Want) -> Self {
        let left = (self.0 & !HALTED).wrapping_sub(Self::taking(from));
        Self(left.wrapping_add(Self::taking(to)))
    }

    /// The holder releases the lock, and newcomers do not pass a queue head that waits.
    #[cfg(feature = "lock_api")]
    pub(crate) const fn released_fairly(self, from: Want) -> Self {
        let bar = if self.0 & PASSED == 0 { 0 } else { PASSED };
        Self((self.0 & !HALTED).wrapping_sub(Self::taking(from)) | bar)
    }

    /// Readers may be counted elsewhere from here on. `None` if a writer or an upgradable reader
    /// holds the lock, or a CPU waits for it.
    pub(crate) const fn biased(self) -> Option<Self> {
        if self.0 & !(READERS | CROWD) == 0 { Some(Self(self.0 & READERS | BIASED)) } else { None }
    }

    /// The queue head begins to add the readers up.
    pub(crate) const fn folding(self) -> Self {
        Self(self.0 & !BIASED | FOLDING)
    }

    /// The queue head has halted.
    pub(crate) const fn head_halted(self) -> Self {
        Self(self.0 | HALTED)
    }

    /// The upgrading CPU has halted.
    pub(crate) const fn upgrader_halted(self) -> Self {
        Self(self.0 | U_HALTED)
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
/// the word before, or the word that `new` refused.
#[inline(always)]
#[track_caller]
pub(crate) fn update<W: Atomic<u32>>(
    word: &W,
    order: Ordering,
    new: impl Fn(RwWord) -> Option<RwWord>,
) -> Result<RwWord, RwWord> {
    let mut seen = RwWord(word.load(Relaxed));
    while let Some(to) = new(seen) {
        match cas(word, seen, to, order) {
            Ok(()) => return Ok(seen),
            Err(now) => seen = now,
        }
    }
    Err(seen)
}

/// What individual read-modify-writes do to a word.
pub(crate) mod rmw {
    use super::{CROWD, DUE, FOLDING, HALTED, PASSED, READER, READER_SHIFT, U_HALTED, UPGRADABLE};
    use super::{READERS, WRITER};

    /// `fetch_sub`: a reader leaves.
    pub(crate) const LEAVE: u32 = READER;
    /// `fetch_and`: the writer's release.
    pub(crate) const WRITTEN: u32 = !(WRITER | HALTED);
    /// `fetch_and`: the release of an upgradable lock.
    pub(crate) const NOT_UPGRADABLE: u32 = !(UPGRADABLE | HALTED);
    /// `fetch_and`: the queue head has come back.
    pub(crate) const HEAD_IS_BACK: u32 = !HALTED;
    /// `fetch_and`: the queue head gives up.
    pub(crate) const NO_HEAD: u32 = !(HALTED | PASSED);
    /// `fetch_or`: the upgrading CPU bars other readers.
    pub(crate) const UPGRADE: u32 = DUE;
    /// `fetch_and`: the upgrading CPU has come back.
    pub(crate) const UPGRADER_IS_BACK: u32 = !U_HALTED;
    /// `fetch_and`: the upgrading CPU gives up.
    pub(crate) const NO_UPGRADER: u32 = !(DUE | U_HALTED | HALTED);
    /// `fetch_and`: all waiters are gone.
    pub(crate) const NO_WAITERS: u32 = !(HALTED | U_HALTED | DUE | PASSED | FOLDING | CROWD);
    const _: () = assert!(NO_WAITERS & READERS == READERS);

    /// `fetch_add` to a word with `FOLDING`: counts so many readers here, and ends the folding.
    pub(crate) const fn folded(readers: u32) -> u32 {
        (readers << READER_SHIFT).wrapping_sub(FOLDING)
    }
}
