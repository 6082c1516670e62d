// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine checks of read-write locks and monitors beyond what it checks of every lock.

use super::{Op, Status, TorturedMachine};
use crate::torture::conditions::{Hold, Verb};
use crate::torture::failure::Oracle;
use crate::torture::kind::Role;
use crate::torture::lock_model::LOCKED;

// The word of a read-write lock (`Layout::ReadWrite`).
const WRITER: u32 = 1 << 0;
const UPGRADABLE: u32 = 1 << 1;
const DUE: u32 = 1 << 2;
const HALTED: u32 = 1 << 3;
const BIASED: u32 = 1 << 5;
const FOLDING: u32 = 1 << 6;
const CROWD: u32 = 1 << 7;
/// What may be left in the word of a lock that no CPU uses.
pub(super) const AT_REST: u32 = BIASED | CROWD;
const READERS_SHIFT: u32 = 14;

/// How often the queue head has been passed, or that it may not be: [`BARRED`] or more.
fn passed(word: u32) -> u32 {
    word >> 8 & 0x3f
}

const BARRED: u32 = 62;
/// How often a queue head that runs may be passed beyond its bound: from taking the queue until it
/// bars newcomers, some accesses later.
const UNBARRED: u32 = 32;

/// One in how many waits is cancelled.
const CANCELS_ONE_IN: u32 = 8;

fn readers(word: u32) -> i32 {
    word.cast_signed() >> READERS_SHIFT
}

impl Op {
    /// Whether it is the release of a lock, or notifies others.
    pub(super) fn is_release(&self) -> bool {
        matches!(self.verb, None | Some(Verb::Notify))
    }
}

impl TorturedMachine {
    /// The current CPU holds a lock from now on. Fails if another holds it for what excludes that.
    pub(super) fn holds(&mut self, lock: usize, hold: Hold) {
        let me = self.cpu();
        let model = &mut self.locks[lock];
        let other = match hold {
            Hold::Write => {
                let other = model.readers.first().copied().or(model.upgradable);
                model.owner.replace(me).or(other)
            }
            Hold::Read | Hold::Again => {
                model.readers.push(me);
                model.owner
            }
            Hold::Upgradable => model.upgradable.replace(me).or(model.owner),
        };
        if let Some(other) = other {
            let text = format!("cpu {me} has taken a lock that cpu {other} holds");
            self.fail(Some(lock), Oracle::Exclusion, text);
        }
    }

    /// The current CPU does not count as a holder any more: its release begins.
    pub(super) fn stops_holding(&mut self, lock: usize, hold: Hold) {
        let me = self.cpu();
        let model = &mut self.locks[lock];
        match hold {
            Hold::Write => model.owner = None,
            Hold::Read | Hold::Again => {
                let place = model.readers.iter().position(|&reader| reader == me);
                model.readers.swap_remove(place.expect("it reads"));
            }
            Hold::Upgradable => model.upgradable = None,
        }
    }

    /// The current CPU begins to upgrade.
    pub(crate) fn begin_upgrade(&mut self, lock: usize, verb: Verb, deadline: Option<u64>) {
        self.begin(lock, Some(verb), deadline, Hold::Write);
    }

    pub(crate) fn end_upgrade(&mut self, got: bool) {
        let Op { lock, deadline, .. } = self.finish(got);
        self.locks[lock].owed = 0;
        if got {
            self.locks[lock].upgradable = None;
            self.holds(lock, Hold::Write);
        } else {
            self.gives_up(lock, deadline);
        }
        self.check_wakeups();
    }

    /// The current CPU begins to keep a lock for less.
    pub(crate) fn begin_downgrade(&mut self, lock: usize, from: Hold, to: Hold) {
        self.stops_holding(lock, from);
        self.holds(lock, to);
        self.begin(lock, None, None, to);
    }

    pub(crate) fn end_downgrade(&mut self) {
        self.finish(true);
        self.check_wakeups();
    }

    /// The current CPU, which holds the lock of a monitor, begins to wait for a notification.
    pub(crate) fn begin_wait(&mut self, lock: usize, deadline: Option<u64>) {
        self.begin(lock, Some(Verb::Wait), deadline, Hold::Write);
        let cancels = match self.script {
            Some(script) => script.cancels && self.cpu() == 1,
            None => self.rng.one_in(CANCELS_ONE_IN),
        };
        self.wait_mut().cancelled = cancels && !self.draining;
    }

    /// The wait releases the lock.
    pub(crate) fn wait_releases(&mut self) {
        let lock = self.waits_for();
        self.stops_holding(lock, Hold::Write);
    }

    /// Whether the wait of the current CPU ends by a panic once it has released the lock.
    pub(crate) fn wait_is_cancelled(&mut self) -> bool {
        self.wait_mut().cancelled
    }

    fn wait_mut(&mut self) -> &mut Op {
        self.me().ops.last_mut().expect("it waits")
    }

    /// The wait is over, and asks for the lock, however long that takes.
    pub(crate) fn wait_wants_lock(&mut self) {
        self.wait_mut().verb = Some(Verb::Lock);
    }

    /// The wait has the lock again.
    pub(crate) fn wait_has_lock(&mut self) {
        let lock = self.waits_for();
        self.locks[lock].owed = 0;
        self.locks[lock].takes += 1;
        self.holds(lock, Hold::Write);
    }

    pub(crate) fn end_wait(&mut self, notified: bool) {
        let Op { lock, deadline, cancelled, .. } = self.finish(notified);
        if !notified && !cancelled {
            self.gives_up(lock, deadline);
        }
        self.check_wakeups();
    }

    fn waits_for(&self) -> usize {
        self.cpus[self.cpu()].ops.last().expect("it waits").lock
    }

    /// The current CPU begins to notify.
    pub(crate) fn begin_notify(&mut self, lock: usize) {
        self.begin(lock, Some(Verb::Notify), None, Hold::Write);
    }

    pub(crate) fn end_notify(&mut self) {
        let lock = self.finish(true).lock;
        self.locks[lock].owed = 0;
        self.locks[lock].notifiers -= 1;
        self.check_wakeups();
    }

    /// Whether a lock, as it is held, leaves room for an operation that asks for it.
    pub(super) fn has_room(&self, cpu: usize, op: &Op) -> bool {
        let model = &self.locks[op.lock];
        match (model.kind.role, op.verb) {
            (_, None) => false,
            (_, Some(Verb::Notify)) => true,
            _ if model.owner.is_some() => false,
            (_, Some(Verb::Wait)) => model.tokens > 0 && model.notifiers == 0,
            (Role::ReadWrite, _) => self.has_room_for(cpu, op),
            _ => true,
        }
    }

    /// Whether a read-write lock that no CPU holds to write leaves room for an operation. One that
    /// only reads may have to wait for any that does more.
    fn has_room_for(&self, cpu: usize, op: &Op) -> bool {
        let model = &self.locks[op.lock];
        let is_free = model.readers.is_empty() && model.upgradable.is_none();
        let does_more =
            |other: &Op| other.verb.is_some() && !matches!(other.hold, Hold::Read | Hold::Again);
        match op.hold {
            Hold::Write if model.upgradable == Some(cpu) => model.readers.is_empty(),
            Hold::Write => is_free,
            Hold::Again if model.readers.contains(&cpu) => true,
            Hold::Upgradable if model.upgradable.is_some() => false,
            _ => {
                let mut all = self.ops_of(op.lock);
                is_free || !all.any(|(other, op)| other != cpu && does_more(op))
            }
        }
    }

    /// The operations on a lock that are under way, with their CPUs.
    pub(super) fn ops_of(&self, lock: usize) -> impl Iterator<Item = (usize, &Op)> {
        let all = self.cpus.iter().enumerate();
        let all = all.flat_map(|(cpu, state)| state.ops.iter().map(move |op| (cpu, op)));
        all.filter(move |(_, op)| op.lock == lock)
    }

    /// Whether some CPU should take a read-write lock now although others are away: a queue head
    /// that runs, or a running newcomer that the head may be passed by, if the lock has room.
    pub(super) fn is_owed_to_the_running(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let word = model.word;
        let fits = |hold| match hold {
            Hold::Read | Hold::Again => word & (WRITER | DUE | FOLDING) == 0,
            // A CPU that is away may read without being counted.
            _ => word & (WRITER | UPGRADABLE | BIASED | FOLDING) == 0 && readers(word) == 0,
        };
        let is_admitted = word & FOLDING == 0 && passed(word) < BARRED;
        let can_take = |(cpu, op): (usize, &Op)| {
            let state = &self.cpus[cpu];
            let runs = state.status == Status::Running && op.level == state.level;
            let may = model.queue_holder == Some(cpu) || !op.joined && is_admitted;
            runs && may && fits(op.hold) && self.has_room(cpu, op)
        };
        let releases = |(_, op): (usize, &Op)| op.is_release();
        !self.ops_of(lock).any(releases) && self.ops_of(lock).any(can_take)
    }

    /// The current CPU has changed a cell of a read-write lock.
    pub(super) fn watch_read_write(&mut self, lock: usize, rest: u32, old: u32, new: u32) {
        let me = self.cpu();
        let model = &mut self.locks[lock];
        if rest != 0 {
            if (old ^ new) & LOCKED != 0 {
                model.queue_holder = (new & LOCKED != 0).then_some(me);
                (model.passed, model.bars) = (0, false);
            }
            let joins = new >> 16 != old >> 16 && new >> 16 != 0;
            if let Some(op) = self.cpus[me].ops.last_mut().filter(|_| joins) {
                op.joined = true;
            }
            return;
        }
        model.word = new;
        let upgrades = old & !new & UPGRADABLE != 0;
        let takes = new & !old & (WRITER | UPGRADABLE) != 0 || readers(new) > readers(old);
        if model.queue_holder == Some(me) {
            // While it adds readers up it can't be passed.
            model.bars |= passed(new) != 0 || new & HALTED != 0;
            if takes && old & FOLDING == 0 {
                model.queue_holder = None;
            }
            return;
        }
        let counts =
            self.cpus[me].op().is_some_and(|op| op.verb.is_some() && op.hold != Hold::Again);
        if takes && !upgrades && counts && self.has_counting_head(lock) {
            self.passes_head(lock, old);
        }
    }

    /// Whether acquisitions count against the bound of a read-write lock: a queue head waits, has
    /// time left, and has limited how often it is passed, or could have done so by now.
    fn has_counting_head(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let Some(head) = model.queue_holder else { return false };
        let state = &self.cpus[head];
        let is_there = !state.is_away() && state.op().is_some_and(|op| op.lock == lock);
        (model.bars || is_there) && !self.is_late(head, lock)
    }

    /// The current CPU has taken a read-write lock, whose word was `old`, past the queue head.
    fn passes_head(&mut self, lock: usize, old: u32) {
        let me = self.cpu();
        let model = &mut self.locks[lock];
        model.passed += 1;
        let passes = model.passed;
        self.tally.longest_bypass = self.tally.longest_bypass.max(passes);
        if passed(old) >= BARRED {
            let text = format!("cpu {me} passes the queue head, which has barred newcomers");
            self.fail(Some(lock), Oracle::Bypass, text);
        } else if model.kind.promise.max_bypass.is_some_and(|most| passes > most + UNBARRED) {
            let text = format!("the queue head has been passed {passes} times");
            self.fail(Some(lock), Oracle::Bypass, text);
        }
    }
}
