// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the read-write lock.
//!
//! Each model checks all of these at once:
//!
//! * writers exclude each other and readers, and see what these did: the data is a cell in which
//!   loom finds races;
//! * no lost wake-up of any class of waiters: all CPUs end, or loom reports a deadlock;
//! * no access after the release (F4): a writer that comes last frees the lock;
//! * no CPU leaves bits behind in the word, and it never says that a CPU writes beside readers: see
//!   [`Watch`].

use std::cell::Cell;

use loom::cell::UnsafeCell;
use overlock::counters::Event;
use overlock::platform::Platform;
use overlock::{RawLock, RawRwLock, RawTimedLock};

use super::cells::{Life, Part, Watch, Word};
use super::models::{Depth, Report, Seen, explore};
use super::platform::{self, ByAddress, Halt, Halting, Spinning, World};
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
    fn new(word: Word) -> Self;
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

impl<P: Platform<Word = Word>> Shared for RawRwLock<P, Seen> {
    fn new(word: Word) -> Self {
        // SAFETY: the cell holds zero.
        unsafe { Self::with(word) }
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

impl<P: Platform<Word = Word>> More for RawRwLock<P, Seen> {
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

/// What the word says of holders and of those asleep; see `raw/word/read_write.rs`.
mod bits {
    pub(super) const ASLEEP: u32 = 1 << 30;
    pub(super) const HOLDS: u32 = ASLEEP - 1;
    pub(super) const CLAIMED: u32 = HOLDS - 1;
    pub(super) const TURN: u32 = HOLDS - 2;
    /// One reader, which may upgrade.
    pub(super) const UPGRADABLE: u32 = 3;
}

/// Checks that the lock is taken to write only when it is free or by the last upgradable reader,
/// and to read only when none writes; and that no CPU is left in the end.
fn says_who_holds() -> Watch {
    use bits::{ASLEEP, CLAIMED, HOLDS, TURN, UPGRADABLE};
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        let [old, new] = [old, new].map(|word| word & HOLDS);
        let is_free = [0, TURN].contains(&old);
        let writes = new >= CLAIMED;
        let may = if writes { is_free || old == UPGRADABLE || old >= CLAIMED } else { true };
        // A writer that goes on to read is one reader.
        let reads = !writes && old >= CLAIMED;
        let goes_on = !reads || [0, TURN, 2, UPGRADABLE].contains(&new);
        assert!(may && goes_on, "CPU {cpu} takes what is held: {old:#x} {new:#x}");
    });
    Watch { judge, rest: !ASLEEP }
}

struct Scene<S> {
    lock: S,
    life: &'static Life,
    data: UnsafeCell<()>,
    /// How many uses are still to come. It belongs to no CPU, and orders nothing.
    left: Cell<usize>,
}

impl<S: Shared> Scene<S> {
    fn new(uses: usize) -> &'static Self {
        let life = platform::keep(Life::new(Some(says_who_holds())));
        let word = Word::new(0, Part::Lock(life));
        let (lock, data, left) = (S::new(word), UnsafeCell::new(()), Cell::new(uses));
        platform::keep(Self { lock, life, data, left })
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
            self.life.end();
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
        scene.life.rest();
        platform::close();
    })
}

macro_rules! models {
    ($($name:ident: on $platform:ty, $world:expr, $bound:expr, $uses:expr,
        [$($event:ident),*], [$($site:literal),*];)*) => {
        /// All models of the read-write lock.
        pub(crate) const MODELS: &[Model] = &[$(Model {
            name: stringify!($name),
            run: |depth| {
                uses::<RawRwLock<$platform, Seen>>($world, $bound, $uses, depth)
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
/// A reader has halted so often that it claims the next turn.
const RESTLESS: World = World { spurious: 4, ..World::PLAIN };
/// What is kept for others is so for one reading of the clock, and halts last until then.
const KEPT: World = World { reserved_ns: 5_000_000, ..TIMEOUT };

models! {
    rw_read_write: on Halting, STALE, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_two_writers: on Halting, STALE, Some(3), &[&[Write], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_token: on Halting, TOKEN, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_addr: on ByAddress, STALE, Some(3), &[&[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_again: on Halting, FUTEX, Some(2), &[&[Read, Read], &[Write, Read]],
        [PvWaitHead, PvKickUnlock], [];
    rw_recursive: on Halting, FUTEX, Some(2), &[&[Again], &[Write]],
        [PvWaitHead, PvKickUnlock], ["read_write.rs try_take update"];
    rw_reads_past: on Halting, FUTEX, Some(2), &[&[Read], &[Write], &[Reads]],
        [PvWaitHead, PvKickUnlock], [];
    rw_two_readers: on Halting, FUTEX, Some(2), &[&[Read], &[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_queue: on Halting, FUTEX, Some(2), &[&[Write], &[Read], &[Write]],
        [PvWaitHead, PvKickUnlock], [];
    rw_spurious: on Halting, SPURIOUS, Some(3), &[&[Read], &[Write]],
        [PvWaitHead], ["wait.rs halt update"];
    rw_timed: on Halting, TIMEOUT, Some(2), &[&[Read, Write], &[WriteBy(25_000_000), Write]],
        [LockTimeout], ["wait.rs give_up update"];
    rw_timed_reader: on Halting, TIMEOUT, Some(2), &[&[Write], &[ReadBy(1), Write]],
        [LockTimeout], [];
    rw_crowd: on Halting, FUTEX, Some(2), &[&[Write], &[Read], &[Read]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_addr: on ByAddress, FUTEX, Some(2), &[&[Write], &[Read], &[Read]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_token: on Halting, TOKEN, Some(2), &[&[Write, Read], &[Read]],
        [PvWaitNode, PvKickUnlock], [];
    rw_crowd_head: on Halting, FUTEX, Some(2), &[&[Write], &[Write], &[Read]],
        [PvWaitNode, PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_given_up: on Halting, FUTEX, Some(2), &[&[Read], &[Read], &[WriteBy(45_000_000)]],
        [LockTimeout], ["wait.rs give_up update"];
    rw_crowd_upgradable: on Halting, FUTEX, Some(2), &[&[Write], &[Upgradable], &[Read]],
        [PvWaitNode, PvKickUnlock], [];
    rw_spin: on Spinning, SPIN, Some(2), &[&[Read], &[Write]],
        [LockQueued], [];
    rw_upgradable: on Halting, STALE, Some(3), &[&[Upgradable], &[Write]],
        [PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_upgrade: on Halting, STALE, Some(3), &[&[Upgrade], &[Read]],
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_token: on Halting, TOKEN, Some(3), &[&[Upgrade], &[Read]],
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_three: on Halting, FUTEX, Some(2), &[&[Write], &[Read], &[Upgrade]],
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_both: on Halting, FUTEX, Some(2), &[&[Upgrade], &[Upgrade]],
        [PvWaitNode, PvKickUnlock], [];
    rw_upgrade_timed: on Halting, TIMEOUT, Some(2), &[&[Read], &[Read], &[UpgradeBy(25_000_000)]],
        [LockTimeout], ["wait.rs give_up update"];
    rw_downgrade: on Halting, STALE, Some(3), &[&[Downgrade], &[Read]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_downgrade_three: on Halting, FUTEX, Some(2), &[&[Downgrade], &[Write], &[Read]],
        [PvWaitHead, PvKickUnlock], [];
    rw_turns: on ByAddress, RESTLESS, Some(2), &[&[Write], &[Write], &[Read]],
        [PvWaitNode, PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_turns_reader: on Halting, RESTLESS, Some(2), &[&[Read], &[Write]],
        [PvWaitNode], ["read_write.rs release update"];
    rw_upgradable_beside: on ByAddress, FUTEX, Some(2), &[&[Upgrade], &[Write], &[Upgradable]],
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_kept: on ByAddress, KEPT, Some(2), &[&[Read], &[Write], &[Read]],
        [PvWaitHead], ["wait.rs lock_slow update"];
}
