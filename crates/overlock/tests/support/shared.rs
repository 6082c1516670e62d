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
use overlock::platform::Platform;
use overlock::{RawLock, RawRwLock, RawTimedLock};

use super::cells::{Life, Part, Watch, Word};
use super::models::{Depth, Report, Scene, Seen, Steps, models, play};
use super::platform::worlds::{FUTEX, SPIN, SPURIOUS, STALE, TIMEOUT, TOKEN};
use super::platform::{self, ByAddress, CLEARS_FIRST, Halting, Spinning, World};
use Use::*;

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
    /// Writes, and hands the lock over.
    Fair,
    /// Writes if that is possible before this time.
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

/// What the word says of holders and of those asleep; see `raw/word/read_write.rs`.
mod bits {
    pub(super) const ASLEEP: u32 = 1 << 30;
    pub(super) const FIRST: u32 = 1 << 29;
    pub(super) const HOLDS: u32 = (1 << 29) - 1;
    pub(super) const CLAIMED: u32 = HOLDS - 1;
    pub(super) const TURN: u32 = HOLDS - 2;
    /// One reader, which may upgrade.
    pub(super) const UPGRADABLE: u32 = 3;
}

/// Checks that the lock is taken to write only when it is free or by the last upgradable reader,
/// and to read only when none writes; and that no CPU is left in the end. Tells the platform who
/// clears `FIRST`, and so owes a kick (R7).
fn says_who_holds() -> Watch {
    use bits::{ASLEEP, CLAIMED, FIRST, HOLDS, TURN, UPGRADABLE};
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        platform::owes_a_kick(old & !new & FIRST != 0);
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

struct Place<P: Platform> {
    lock: RawRwLock<P, Seen>,
    life: &'static Life,
    data: UnsafeCell<()>,
    /// How many uses are still to come. It belongs to no CPU, and orders nothing.
    left: Cell<usize>,
}

impl<P: Platform<Word = Word> + 'static> Place<P> {
    fn new(uses: usize) -> &'static Self {
        let life = platform::keep(Life::new(Some(says_who_holds())));
        // SAFETY: the cell holds zero.
        let lock = unsafe { RawRwLock::with(Word::new(0, Part::Lock(life))) };
        let (data, left) = (UnsafeCell::new(()), Cell::new(uses));
        platform::keep(Self { lock, life, data, left })
    }

    fn reads(&self) {
        self.data.with(|_| ());
    }

    fn ends(&self) -> bool {
        self.left.set(self.left.get() - 1);
        self.left.get() == 0
    }

    fn writes(&self) {
        // SAFETY: the caller has taken it.
        self.writes_until(|| unsafe { self.lock.unlock() });
    }

    /// The section of a writer that has the lock, and its release. The last one frees the lock.
    fn writes_until(&self, release: impl FnOnce()) {
        self.data.with_mut(|_| ());
        let last = self.ends();
        release();
        if last {
            self.life.end();
        }
    }

    /// The section of a reader that has the lock, and its release.
    fn reads_and_leaves(&self) {
        self.reads();
        self.ends();
        // SAFETY: as above.
        unsafe { self.lock.unlock_shared() };
    }

    /// The section of a CPU that may or may not have got the lock in time.
    fn if_got(&self, got: bool, section: impl FnOnce(&Self)) {
        if got {
            section(self);
        } else {
            self.ends();
        }
    }
}

impl<P: Platform<Word = Word> + 'static> Scene for Place<P> {
    type Step = Use;

    fn step(&'static self, what: Use) -> bool {
        let lock = &self.lock;
        match what {
            Read => {
                lock.lock_shared();
                self.reads_and_leaves();
            }
            ReadBy(at) => self.if_got(lock.try_lock_shared_until(at), Self::reads_and_leaves),
            Again => {
                lock.lock_shared();
                lock.lock_shared_recursive();
                self.reads();
                // SAFETY: taken twice.
                unsafe { lock.unlock_shared() };
                self.reads_and_leaves();
            }
            Reads => {
                lock.lock_shared_recursive();
                self.reads_and_leaves();
            }
            Write => {
                lock.lock();
                self.writes();
            }
            Fair => {
                lock.lock();
                // SAFETY: taken above.
                self.writes_until(|| unsafe { lock.unlock_fair() });
            }
            WriteBy(at) => self.if_got(lock.try_lock_until(at), Self::writes),
            Upgradable | Upgrade | UpgradeBy(_) => {
                lock.lock_upgradable();
                self.reads();
                let upgraded = match what {
                    // SAFETY: taken above.
                    UpgradeBy(at) => unsafe { lock.try_upgrade_until(at) },
                    Upgrade => {
                        // SAFETY: as above.
                        unsafe { lock.upgrade() };
                        true
                    }
                    _ => false,
                };
                if upgraded {
                    self.writes();
                } else {
                    self.ends();
                    // SAFETY: as above; it was not upgraded.
                    unsafe { lock.unlock_upgradable() };
                }
            }
            Downgrade => {
                lock.lock();
                self.data.with_mut(|_| ());
                // SAFETY: taken above to write.
                unsafe { lock.downgrade_to_upgradable() };
                self.reads();
                // SAFETY: as above; it is upgradable now.
                unsafe { lock.downgrade_upgradable() };
                self.reads_and_leaves();
            }
        }
        true
    }

    fn rest(&self) {
        self.life.rest();
    }
}

/// Each CPU makes its uses of one lock.
fn uses<P: Platform<Word = Word> + 'static>(
    world: World,
    preemptions: Option<usize>,
    all: Steps<Use>,
) -> impl FnOnce(Depth) -> Report {
    play(world, preemptions, all, || Place::<P>::new(all.iter().map(|uses| uses.len()).sum()))
}

/// A reader has halted so often that it claims the next turn.
const RESTLESS: World = World { spurious: 4, ..FUTEX };
/// What is kept for others is so for one reading of the clock, and halts last until then.
const KEPT: World = World { reserved_ns: 5_000_000, ..TIMEOUT };
const IMPATIENT: World = World { timeouts: true, ..SPURIOUS };

/// CPU 1 sleeps as a writer that goes first, and CPU 0 or 2 clears `FIRST`: the model's number says
/// how. A writer gives up, a writer goes on to read, and readers take their turn.
pub(crate) fn clears_first(how: usize, forgets: bool) -> impl FnOnce(Depth) -> Report {
    let (world, preemptions, all): (_, _, Steps<Use>) = match how {
        0 => (IMPATIENT, 2, &[&[Write], &[Write], &[WriteBy(105_000_000), Read]]),
        1 => (SPURIOUS, 1, &[&[Downgrade], &[Write]]),
        _ => (RESTLESS, 1, &[&[Write], &[Write], &[Read]]),
    };
    uses::<ByAddress>(World { forgets, ..world }, Some(preemptions), all)
}

models! {
    rw_read_write: uses::<Halting>(STALE, Some(3), &[&[Read], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_two_writers: uses::<Halting>(STALE, Some(3), &[&[Write], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_token: uses::<Halting>(TOKEN, Some(3), &[&[Read], &[Write]]), [PvWaitHead, PvKickUnlock], [];
    rw_addr: uses::<ByAddress>(STALE, Some(3), &[&[Read], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_again: uses::<Halting>(FUTEX, Some(2), &[&[Read, Read], &[Write, Read]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_recursive: uses::<Halting>(FUTEX, Some(2), &[&[Again], &[Write]]),
        [PvWaitHead, PvKickUnlock], ["read_write.rs try_take update"];
    rw_reads_past: uses::<Halting>(FUTEX, Some(2), &[&[Read], &[Write], &[Reads]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_two_readers: uses::<Halting>(FUTEX, Some(2), &[&[Read], &[Read], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_queue: uses::<Halting>(FUTEX, Some(2), &[&[Write], &[Read], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_spurious: uses::<Halting>(SPURIOUS, Some(3), &[&[Read], &[Write]]),
        [PvWaitHead], ["wait.rs halt update"];
    rw_timed: uses::<Halting>(TIMEOUT, Some(2), &[&[Read, Write], &[WriteBy(25_000_000), Write]]),
        [LockTimeout], ["wait.rs give_up update"];
    rw_timed_reader: uses::<Halting>(TIMEOUT, Some(2), &[&[Write], &[ReadBy(1), Write]]),
        [LockTimeout], [];
    rw_crowd: uses::<Halting>(FUTEX, Some(2), &[&[Write], &[Read], &[Read]]),
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_addr: uses::<ByAddress>(FUTEX, Some(2), &[&[Write], &[Read], &[Read]]),
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_token: uses::<Halting>(TOKEN, Some(2), &[&[Write, Read], &[Read]]),
        [PvWaitNode, PvKickUnlock], [];
    rw_crowd_head: uses::<Halting>(FUTEX, Some(2), &[&[Write], &[Write], &[Read]]),
        [PvWaitNode, PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_crowd_given_up: uses::<Halting>(FUTEX, Some(2), &[&[Read], &[Read], &[WriteBy(45_000_000)]]),
        [LockTimeout], ["wait.rs give_up update"];
    rw_crowd_upgradable: uses::<Halting>(FUTEX, Some(2), &[&[Write], &[Upgradable], &[Read]]),
        [PvWaitNode, PvKickUnlock], [];
    rw_spin: uses::<Spinning>(SPIN, Some(2), &[&[Read], &[Write]]), [LockQueued], [];
    rw_upgradable: uses::<Halting>(STALE, Some(3), &[&[Upgradable], &[Write]]),
        [PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_upgrade: uses::<Halting>(STALE, Some(3), &[&[Upgrade], &[Read]]),
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_token: uses::<Halting>(TOKEN, Some(3), &[&[Upgrade], &[Read]]),
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_three: uses::<Halting>(FUTEX, Some(2), &[&[Write], &[Read], &[Upgrade]]),
        [PvWaitHead, PvKickUnlock], ["wait.rs halt update"];
    rw_upgrade_both: uses::<Halting>(FUTEX, Some(2), &[&[Upgrade], &[Upgrade]]),
        [PvWaitNode, PvKickUnlock], [];
    rw_upgrade_timed: uses::<Halting>(TIMEOUT, Some(2),
        &[&[Read], &[Read], &[UpgradeBy(25_000_000)]]),
        [LockTimeout], ["wait.rs give_up update"];
    rw_downgrade: uses::<Halting>(STALE, Some(3), &[&[Downgrade], &[Read]]),
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_downgrade_three: uses::<Halting>(FUTEX, Some(2), &[&[Downgrade], &[Write], &[Read]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_turns: uses::<ByAddress>(RESTLESS, Some(2), &[&[Write], &[Write], &[Read]]),
        [PvWaitNode, PvWaitHead, PvKickUnlock], ["read_write.rs release update"];
    rw_turns_reader: uses::<Halting>(RESTLESS, Some(2), &[&[Read], &[Write]]),
        [PvWaitNode], ["read_write.rs release update"];
    rw_upgradable_beside: uses::<ByAddress>(FUTEX, Some(2), &[&[Upgrade], &[Write], &[Upgradable]]),
        [PvWaitNode, PvKickUnlock], ["read_write.rs release update"];
    rw_fair: uses::<ByAddress>(FUTEX, Some(3), &[&[Fair, Fair], &[Fair]]),
        [PvWaitHead, PvKickUnlock], ["read_write.rs unlock_fair update"];
    rw_fair_number: uses::<Halting>(FUTEX, Some(2), &[&[Fair], &[Fair], &[Fair]]),
        [PvWaitHead, PvKickUnlock], ["read_write.rs unlock_fair update"];
    rw_fair_readers: uses::<ByAddress>(FUTEX, Some(2), &[&[Fair, Read], &[Upgrade]]),
        [PvWaitNode, PvKickUnlock], ["read_write.rs unlock_fair update"];
    rw_fair_timed: uses::<ByAddress>(TIMEOUT, Some(2), &[&[Fair], &[WriteBy(25_000_000), Write]]),
        [LockTimeout], ["read_write.rs unlock_fair update"];
    rw_first: uses::<ByAddress>(SPURIOUS, Some(2), &[&[Write], &[Write], &[Write]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_first_number: uses::<Halting>(SPURIOUS, Some(2),
        &[&[Write, Read], &[Write], &[Upgradable]]),
        [PvWaitHead, PvKickUnlock], [];
    rw_first_given_up: clears_first(0, false), [LockTimeout, PvKickUnlock], [CLEARS_FIRST];
    rw_first_downgrade: clears_first(1, false), [PvKickUnlock], [CLEARS_FIRST];
    rw_first_read: clears_first(2, false), [PvKickUnlock], [CLEARS_FIRST];
    rw_kept: uses::<ByAddress>(KEPT, Some(2), &[&[Read], &[Write], &[Read]]),
        [PvWaitHead], ["wait.rs lock_slow update"];
}
