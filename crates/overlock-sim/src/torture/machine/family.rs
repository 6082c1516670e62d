//! What the machine checks of read-write locks and monitors beyond what it checks of every lock.

use super::{Op, Status, TorturedMachine};
use crate::torture::conditions::{Hold, Verb};
use crate::torture::failure::Property;
use crate::torture::faults::Fault;
use crate::torture::kind::Role;

// The word of a read-write lock (`Layout::ReadWrite`).
const BARRED: u32 = 1 << 31;
const ASLEEP: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const HOLDS: u32 = FIRST - 1;
const UPGRADABLE: u32 = 1;
const CLAIMED: u32 = HOLDS - 1;
/// The lock is free, and it is the readers' turn.
const TURN: u32 = HOLDS - 2;

/// Whether no CPU holds a lock with this word. Readers that have given up may have left their mark,
/// or a turn that none of them takes.
pub(super) fn is_at_rest(word: u32) -> bool {
    word & !ASLEEP == 0 || word & HOLDS == TURN
}

/// Whether a CPU that wants the lock for this can take it, by its word.
fn is_open(word: u32, hold: Hold) -> bool {
    let (holds, is_barred) = (word & HOLDS, word & BARRED != 0);
    match hold {
        Hold::Write => holds == 0 && word & FIRST == 0,
        Hold::Again => holds < CLAIMED,
        Hold::Read => holds == TURN || holds < TURN && !is_barred,
        Hold::Upgradable => holds == TURN || holds < TURN && !is_barred && word & UPGRADABLE == 0,
    }
}

/// One in how many waits is cancelled.
const CANCELS_ONE_IN: u32 = 8;

/// How many read, by the word of a lock.
fn readers(word: u32) -> u32 {
    if word & HOLDS < TURN { (word & HOLDS) / 2 } else { 0 }
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
            self.fail(Some(lock), Property::Exclusion, text);
        }
    }

    /// The current CPU does not count as a holder any more: its release begins.
    pub(crate) fn stops_holding(&mut self, lock: usize, hold: Hold) {
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

    /// Whether a hold is left for another CPU to release: in worlds with an odd number of CPUs, one
    /// in five. A lock of handlers stays with them.
    pub(crate) fn leaves(&mut self, lock: usize, hold: Hold) -> bool {
        let is_left = self.script.is_none()
            && self.world.cpus % 2 == 1
            && self.tally.acquisitions % 5 == 4
            && lock < self.world.locks;
        if is_left {
            let me = self.cpu();
            self.given.push((lock, me, hold));
        }
        is_left
    }

    /// The current CPU counts as the holder of what a CPU has left, which it will release.
    pub(crate) fn takes_over(&mut self) -> Option<(usize, Hold)> {
        let (lock, from, hold) = self.given.pop()?;
        let me = self.cpu();
        if me != from {
            self.note_fault(Fault::Given);
            self.releases_given = true;
            let model = &mut self.locks[lock];
            match hold {
                Hold::Write => model.owner = Some(me),
                Hold::Upgradable => model.upgradable = Some(me),
                Hold::Read | Hold::Again => {
                    let place = model.readers.iter().position(|&reader| reader == from);
                    model.readers[place.expect("it reads")] = me;
                }
            }
        }
        Some((lock, hold))
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

    pub(crate) fn waits_for(&self) -> usize {
        self.cpus[self.cpu()].ops.last().expect("it waits").lock
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
            Hold::Again => true,
            Hold::Upgradable if model.upgradable.is_some() => false,
            _ => {
                let mut all = self.ops_of(op.lock);
                is_free || !all.any(|(other, op)| other != cpu && does_more(op))
            }
        }
    }

    /// Whether the word of a read-write lock says that it is held, and no CPU has got so far.
    pub(super) fn is_held_by_word(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let is_known =
            model.owner.is_some() || !model.readers.is_empty() || model.upgradable.is_some();
        model.kind.role == Role::ReadWrite && !is_known && !is_at_rest(model.word)
    }

    /// The operations on a lock that are under way, with their CPUs.
    pub(super) fn ops_of(&self, lock: usize) -> impl Iterator<Item = (usize, &Op)> {
        let all = self.cpus.iter().enumerate();
        let all = all.flat_map(|(cpu, state)| state.ops.iter().map(move |op| (cpu, op)));
        all.filter(move |(_, op)| op.lock == lock)
    }

    /// Whether another CPU has begun something with the lock that the current one asks for.
    pub(crate) fn is_asked_for_by_others(&self) -> bool {
        let me = self.cpu();
        let lock = self.cpus[me].op().map(|op| op.lock);
        lock.is_some_and(|lock| self.ops_of(lock).any(|(cpu, _)| cpu != me))
    }

    /// Whether some CPU should take a read-write lock now although others are away: one that runs,
    /// if the word lets it in.
    pub(super) fn is_owed_to_the_running(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let can_take = |(cpu, op): (usize, &Op)| {
            let state = &self.cpus[cpu];
            let runs = state.status == Status::Running && op.level == state.level;
            let upgrades = model.upgradable == Some(cpu) && op.hold == Hold::Write;
            runs && !upgrades && !op.is_release() && is_open(model.word, op.hold)
        };
        self.ops_of(lock).any(can_take)
    }

    /// The current CPU has changed the word of a read-write lock.
    pub(super) fn watch_read_write(&mut self, lock: usize, rest: u32, old: u32, new: u32) {
        if rest != 0 {
            let text = format!("a lock of one word has another, {rest}");
            return self.fail(Some(lock), Property::Residue, text);
        }
        let me = self.cpu();
        self.locks[lock].word = new;
        let Some(op) = self.cpus[me].op() else { return };
        let Some(verb) = op.verb else { return };
        let enters = readers(new) > readers(old);
        let lifts = old & BARRED != 0 && new & BARRED == 0 && new & HOLDS == 0;
        let is_free = matches!(old & HOLDS, 0 | TURN);
        // Where turns end, one may have lasted for long enough.
        let turns_end = self.locks[lock].kind.promise.survives.stops();
        let is_late = self.is_late(me, lock) || is_free && turns_end;
        // An attempt takes what is free.
        let tries = is_free && (verb == Verb::Try || is_late);
        let passes = enters && old & BARRED != 0 && old & HOLDS != TURN && op.hold != Hold::Again;
        if passes && !tries {
            let text = format!("cpu {me} reads past a writer that waits: {old:#x} {new:#x}");
            self.fail(Some(lock), Property::Bypass, text);
        } else if passes {
            self.tally.longest_bypass = self.tally.longest_bypass.max(1);
        } else if new & HOLDS >= CLAIMED && old & HOLDS == TURN && !tries {
            let text = format!("cpu {me} writes in the readers' turn");
            self.fail(Some(lock), Property::Bypass, text);
        } else if lifts && is_free && !is_late {
            let text = format!("cpu {me} ends a turn that has not lasted");
            self.fail(Some(lock), Property::Bypass, text);
        }
    }
}
