// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the read-write lock.
//!
//! Each model checks all of these at once:
//!
//! * writers exclude each other and readers, and see what these did: the data is a cell in which
//!   loom finds races;
//! * no lost wake-up, of the queue head or of an upgrading CPU: all CPUs end, or loom reports a
//!   deadlock;
//! * no access after the release (F4): a writer that comes last frees the lock;
//! * no CPU leaves bits behind in the word, and a queue head is passed only as often as its count
//!   says: see [`Watch`].

use std::cell::Cell;

use loom::cell::UnsafeCell;
use overlock::counters::Event;
use overlock::platform::Platform;
use overlock::platform::{Bias, Unbiased};
use overlock::{RawLock, RawRwLock, RawTimedLock};

use super::cells::{Life, Part, Watch, Word};
use super::models::{Depth, Report, Seen, explore};
use super::platform::{
    self, ByAddress, Cheap, CheapByAddress, Halt, Halting, Noted, Spinning, World,
};
use super::table::Model;
use Use::{Again, Downgrade, Read, ReadBy, Reads, Upgradable, Upgrade, UpgradeBy, Write, WriteBy};

/// What a CPU does with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    /// Reads if that is possible before this time.
    ReadBy(u64),
    /// Reads, and while it does reads once more, recursively.
    Again,
    /// Reads past waiting writers.
    Reads,
    Write,
    /// Writes if that is possible before this time; without waiting, if it is zero.
    WriteBy(u64),
    /// Reads with the right to upgrade, and does not.
    Upgradable,
    /// Reads, writes and reads again, without a writer in between.
    Upgrade,
    /// Upgrades if that is possible before this time.
    UpgradeBy(u64),
    /// Writes, and goes on as an upgradable and then as a plain reader.
    Downgrade,
}

/// A read-write lock under test.
pub(crate) trait Shared: 'static {
    fn new(word: Word, queue: Word) -> Self;
    fn write(&self, deadline_ns: Option<u64>) -> bool;
    fn end_write(&self);
    fn read(&self, deadline_ns: Option<u64>) -> bool;
    fn end_read(&self);
    /// The lock itself, if it has the other verbs.
    fn more(&self) -> &dyn More {
        unreachable!("no model of this subject needs the verb")
    }
}

/// The other verbs of a lock.
pub(crate) trait More {
    fn read_again(&self);
    fn upgradable(&self);
    fn end_upgradable(&self);
    fn upgrade(&self, deadline_ns: Option<u64>) -> bool;
    fn downgrade_to_upgradable(&self);
    fn downgrade_upgradable(&self);
}

impl<P: Platform<Word = Word>, B: Bias<P>> Shared for RawRwLock<P, Seen, B> {
    fn new(word: Word, queue: Word) -> Self {
        // SAFETY: each cell holds zero.
        unsafe { Self::with(word, queue) }
    }
    fn write(&self, deadline_ns: Option<u64>) -> bool {
        match deadline_ns {
            None => {
                self.lock();
                true
            }
            Some(0) => self.try_lock(),
            Some(at) => self.try_lock_until(at),
        }
    }
    fn end_write(&self) {
        // SAFETY: the models release what they have taken.
        unsafe { self.unlock() };
    }
    fn read(&self, deadline_ns: Option<u64>) -> bool {
        match deadline_ns {
            None => {
                self.lock_shared();
                true
            }
            Some(at) => self.try_lock_shared_until(at),
        }
    }
    fn end_read(&self) {
        // SAFETY: as above.
        unsafe { self.unlock_shared() };
    }
    fn more(&self) -> &dyn More {
        self
    }
}

impl<P: Platform<Word = Word>, B: Bias<P>> More for RawRwLock<P, Seen, B> {
    fn read_again(&self) {
        self.lock_shared_recursive();
    }
    fn upgradable(&self) {
        self.lock_upgradable();
    }
    fn end_upgradable(&self) {
        // SAFETY: as above.
        unsafe { self.unlock_upgradable() };
    }
    fn upgrade(&self, deadline_ns: Option<u64>) -> bool {
        match deadline_ns {
            // SAFETY: as above.
            None => unsafe {
                self.upgrade();
                true
            },
            // SAFETY: as above.
            Some(at) => unsafe { self.try_upgrade_until(at) },
        }
    }
    fn downgrade_to_upgradable(&self) {
        // SAFETY: as above.
        unsafe { self.downgrade_to_upgradable() };
    }
    fn downgrade_upgradable(&self) {
        // SAFETY: as above.
        unsafe { self.downgrade_upgradable() };
    }
}

/// The bits of the word that the watch checks; see `raw/word/read_write.rs`.
mod bits {
    pub(super) const WRITER: u32 = 1 << 0;
    pub(super) const UPGRADABLE: u32 = 1 << 1;
    pub(super) const BIASED: u32 = 1 << 5;
    pub(super) const CROWD: u32 = 1 << 7;
    pub(super) const PASS: u32 = 1 << 8;
    pub(super) const PASSED: u32 = 0x3f << 8;
    pub(super) const BARRED: u32 = 62 << 8;
    pub(super) const READER: u32 = 1 << 14;
}

/// Checks that the lock is taken past a queue head only in a step that counts it, and not at all
/// once the count is full; and that all bits are clear in the end.
fn counts_passes() -> Watch {
    use bits::{BARRED, PASS, PASSED, READER, UPGRADABLE, WRITER};
    // A CPU that has read the lock may read it once more without a count.
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        let exclusive = !old & new & (WRITER | UPGRADABLE) != 0;
        let reads = new / READER > old / READER;
        let downgrades = old & !new & (WRITER | UPGRADABLE) != 0;
        if old & PASSED == 0 || !exclusive && !reads || downgrades {
            return;
        }
        let is_head = new & PASSED == 0;
        let counted = old & PASSED < BARRED && new & PASSED == (old & PASSED) + PASS;
        let again = reads && !exclusive && old / READER > 0 && new & PASSED == old & PASSED;
        assert!(is_head || counted || again, "CPU {cpu} passes the queue head: {old:#x} {new:#x}");
    });
    // The first reader that comes when it may takes `CROWD` away.
    Watch { judge, rest: !(bits::BIASED | bits::CROWD) }
}

struct Scene<S> {
    lock: S,
    lives: [&'static Life; 2],
    data: UnsafeCell<()>,
    /// How many uses are still to come. It belongs to no CPU, and orders nothing.
    left: Cell<usize>,
}

impl<S: Shared> Scene<S> {
    fn new(uses: usize) -> &'static Self {
        let lives = [Some(counts_passes()), None].map(|watch| platform::keep(Life::new(watch)));
        let [word, queue] = lives.map(|life| Word::new(0, Part::Lock(life)));
        let (lock, data, left) = (S::new(word, queue), UnsafeCell::new(()), Cell::new(uses));
        platform::keep(Self { lock, lives, data, left })
    }

    fn reads(&self) {
        self.data.with(|_| ());
    }

    fn ends(&self) -> bool {
        self.left.set(self.left.get() - 1);
        self.left.get() == 0
    }

    /// The section of a writer, and its release. The last one frees the lock.
    fn writes(&self) {
        self.data.with_mut(|_| ());
        let last = self.ends();
        self.lock.end_write();
        if last {
            self.lives.iter().for_each(|life| life.end());
        }
    }

    fn reads_and_leaves(&self) {
        self.reads();
        self.ends();
        self.lock.end_read();
    }

    fn make(&self, what: Use) {
        let lock = &self.lock;
        match what {
            Read => {
                lock.read(None);
                self.reads_and_leaves();
            }
            ReadBy(at) => {
                if lock.read(Some(at)) {
                    self.reads_and_leaves();
                } else {
                    self.ends();
                }
            }
            Again => {
                lock.read(None);
                lock.more().read_again();
                self.reads();
                lock.end_read();
                self.reads_and_leaves();
            }
            Reads => {
                lock.more().read_again();
                self.reads_and_leaves();
            }
            Write => {
                lock.write(None);
                self.writes();
            }
            WriteBy(at) => {
                if lock.write(Some(at)) {
                    self.writes();
                } else {
                    self.ends();
                }
            }
            Upgradable => {
                lock.more().upgradable();
                self.reads();
                self.ends();
                lock.more().end_upgradable();
            }
            Upgrade | UpgradeBy(_) => {
                lock.more().upgradable();
                self.reads();
                let deadline_ns = if let UpgradeBy(at) = what { Some(at) } else { None };
                if lock.more().upgrade(deadline_ns) {
                    self.writes();
                } else {
                    self.ends();
                    lock.more().end_upgradable();
                }
            }
            Downgrade => {
                lock.write(None);
                self.data.with_mut(|_| ());
                lock.more().downgrade_to_upgradable();
                self.reads();
                lock.more().downgrade_upgradable();
                self.reads_and_leaves();
            }
        }
    }
}

/// Each CPU makes its uses of one lock. If `held`, the first of CPU 0 is under way when the others
/// start.
pub(crate) fn uses<S: Shared>(
    world: World,
    preemptions: Option<usize>,
    all: &'static [&'static [Use]],
    depth: Depth,
) -> Report {
    explore(preemptions, depth, move || {
        platform::open(world, all.len());
        let scene = Scene::<S>::new(all.iter().map(|uses| uses.len()).sum());
        platform::run(all.len(), move |cpu| {
            for &what in all[cpu] {
                scene.make(what);
            }
        });
        scene.lives.iter().for_each(|life| life.rest());
        platform::close();
    })
}

macro_rules! models {
    ($($name:ident: on $platform:ty, $bias:ty, $world:expr, $bound:expr, $uses:expr,
        [$($event:ident),*], [$($site:literal),*];)*) => {
        /// All models of the read-write lock.
        pub(crate) const MODELS: &[Model] = &[$(Model {
            name: stringify!($name),
            run: |depth| {
                uses::<RawRwLock<$platform, Seen, $bias>>($world, $bound, $uses, depth)
            },
            events: &[$(Event::$event),*],
            sites: &[$($site),*],
        },)*];
    };
}

const FUTEX: World = World::PLAIN;
const STALE: World = World { stale_failures: true, ..World::PLAIN };
const TOKEN: World = World { halt: Halt::Token, ..STALE };
const SPURIOUS: World = World { spurious: 1, ..World::PLAIN };
const SPIN: World = World { pauses: 0, ..STALE };
const TIMEOUT: World = World { timeouts: true, ..World::PLAIN };

models! {
    rw_read_write: on Halting, Unbiased, STALE, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], ["read_write.rs leave_last cas"];
    rw_two_writers: on Halting, Unbiased, STALE, Some(3), &[&[Write], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_token: on Halting, Unbiased, TOKEN, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_addr: on ByAddress, Unbiased, STALE, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_again: on Halting, Unbiased, FUTEX, Some(2), &[&[Read, Read], &[Write, Read]],
        [PvWaitHead, PvKickUnlock], [];
    rw_recursive: on Halting, Unbiased, FUTEX, Some(2), &[&[Again], &[Write]],
        [PvWaitHead, PvKickUnlock], ["read_write.rs take_again cas"];
    rw_reads_past: on Halting, Unbiased, FUTEX, Some(2), &[&[Read], &[Write], &[Reads]],
        [PvWaitHead, PvKickUnlock], [];
    rw_two_readers: on Halting, Unbiased, FUTEX, Some(2), &[&[Read], &[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_queue: on Halting, Unbiased, FUTEX, Some(2), &[&[Write], &[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_spurious: on Halting, Unbiased, SPURIOUS, Some(3), &[&[Read], &[Write]],
        [PvWaitHead], ["wait.rs halt_as_head fetch_and"];
    rw_timed: on Halting, Unbiased, TIMEOUT, Some(2), &[&[Read, Write], &[WriteBy(25_000_000), Write]],
        [LockTimeout], ["wait.rs lock_as_head fetch_and"];
    rw_timed_reader: on Halting, Unbiased, TIMEOUT, Some(2), &[&[Write], &[ReadBy(1), Write]],
        [LockTimeout], [];
    rw_crowd: on Halting, Unbiased, FUTEX, Some(2), &[&[Write], &[Read], &[Read]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs leave_waiters update"];
    rw_crowd_addr: on ByAddress, Unbiased, FUTEX, Some(2), &[&[Write], &[Read], &[Read]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs leave_waiters update"];
    rw_crowd_token: on Halting, Unbiased, TOKEN, Some(2), &[&[Write, Read], &[Read]],
        [PvWaitNode, PvKickUnlock], [];
    rw_crowd_head: on Halting, Unbiased, FUTEX, Some(2), &[&[Write], &[Write], &[Read]],
        [PvWaitNode, PvWaitHead, PvKickUnlock], ["read_write.rs leave_waiters update"];
    rw_crowd_given_up: on Halting, Unbiased, FUTEX, Some(2), &[&[Read], &[Read], &[WriteBy(45_000_000)]],
        [LockTimeout], ["wait.rs lock_as_head fetch_and"];
    rw_crowd_upgradable: on Halting, Unbiased, FUTEX, Some(2), &[&[Write], &[Upgradable], &[Read]],
        [PvWaitNode, PvKickUnlock], [];
    rw_spin: on Spinning, Unbiased, SPIN, Some(2), &[&[Read], &[Write]],
        [LockQueued], [];
    rw_upgradable: on Halting, Unbiased, STALE, Some(3), &[&[Upgradable], &[Write]],
        [PvWaitHead, PvKickUnlock], ["upgrade.rs unlock_upgradable fetch_and"];
    rw_upgrade: on Halting, Unbiased, STALE, Some(3), &[&[Upgrade], &[Read]],
        [PvWaitHead, PvKickUnlock], ["upgrade.rs halt_to_upgrade update"];
    rw_upgrade_token: on Halting, Unbiased, TOKEN, Some(3), &[&[Upgrade], &[Read]],
        [PvWaitHead, PvKickUnlock], ["upgrade.rs halt_to_upgrade update"];
    rw_upgrade_three: on Halting, Unbiased, FUTEX, Some(2), &[&[Write], &[Read], &[Upgrade]],
        [PvWaitHead, PvKickUnlock], ["upgrade.rs halt_to_upgrade update"];
    rw_upgrade_both: on Halting, Unbiased, FUTEX, Some(2), &[&[Upgrade], &[Upgrade]],
        [PvWaitHead, PvKickUnlock], [];
    rw_upgrade_timed: on Halting, Unbiased, TIMEOUT, Some(2), &[&[Read], &[Read], &[UpgradeBy(25_000_000)]],
        [LockTimeout], ["upgrade.rs upgrade_slow fetch_and"];
    rw_downgrade: on Halting, Unbiased, STALE, Some(3), &[&[Downgrade], &[Read]],
        [PvWaitNode, PvKickUnlock], ["upgrade.rs hold_for_less update"];
    rw_downgrade_three: on Halting, Unbiased, FUTEX, Some(2), &[&[Downgrade], &[Write], &[Read]],
        [PvWaitHead, PvKickUnlock], [];
    rw_biased: on Cheap, Noted, FUTEX, Some(2), &[&[Read, Read], &[Write]],
        [], ["a reader enters by the bias", "a reader takes its note back", "the queue head takes a note"];
    rw_biased_addr: on CheapByAddress, Noted, FUTEX, Some(2), &[&[Read, Read], &[Write]],
        [], ["a reader enters by the bias", "a reader takes its note back"];
    rw_biased_token: on Cheap, Noted, TOKEN, Some(2), &[&[Read, Read], &[Write]],
        [], ["a reader enters by the bias", "the queue head takes a note"];
    rw_biased_two: on Cheap, Noted, FUTEX, Some(1), &[&[Read, Read], &[Read], &[Write]],
        [], ["a reader enters by the bias", "the queue head takes a note"];
    rw_biased_again: on Cheap, Noted, FUTEX, Some(2), &[&[Read, Again], &[Write]],
        [], ["a reader enters by the bias", "the queue head takes a note"];
    rw_biased_upgrade: on Cheap, Noted, FUTEX, Some(2), &[&[Read, Read], &[Upgrade]],
        [], ["a reader enters by the bias", "the queue head takes a note"];
    rw_biased_past: on Cheap, Noted, FUTEX, Some(1), &[&[Read, Read], &[WriteBy(1)], &[Write]],
        [], ["a reader enters by the bias"];
    rw_biased_tried: on Cheap, Noted, FUTEX, Some(1), &[&[Read, Read], &[WriteBy(0)], &[Read]],
        [PvWaitNode], ["bias.rs fold fetch_add"];
    rw_biased_written: on Cheap, Noted, FUTEX, Some(2), &[&[Write, Read, Read], &[Read, Read]],
        [], ["a reader enters by the bias"];
}
