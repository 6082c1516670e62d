//! Halting and kicking, with everything that can go wrong between the two without breaking the
//! contract.

use std::panic::Location;
use std::ptr;

use super::calls::{Word, interrupt, is_stopping, step, suspend, with};
use super::{CpuState, Event, PendingKick, Status, TorturedMachine};
use crate::torture::arena::Arena;
use crate::torture::failure::Property;
use crate::torture::faults::Fault;
use crate::torture::kind::{Layout, Role};
use crate::torture::trace::What;

/// The longest time after which a spurious wake-up ends a halt, in nanoseconds.
const SURPRISE_NS: u64 = 100_000;

/// Halts the current CPU while `word` holds `expected`, until it is kicked, until the deadline, or
/// for a limited time (P1, P2).
///
/// It is one of the waiters of these classes.
pub(crate) fn wait(word: &Word<u32>, expected: u32, deadline_ns: Option<u64>, classes: u32) {
    if is_stopping() {
        return;
    }
    step(Location::caller());
    let (offset, value) = (Arena::offset(word.address()), word.peek());
    with(|m| m.me().classes = classes);
    if with(|m| m.halt(offset, value == expected, deadline_ns)) {
        suspend();
        if with(TorturedMachine::was_interrupted) {
            interrupt();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Number(usize),
    /// One of those of these classes that wait on the word.
    Any(u32),
    /// All those of these classes that wait on the word.
    Every(u32),
}

/// Kicks `whom` at the word at `address`. Returns whether that has ended a halt; a kick that comes
/// late does not know.
pub(crate) fn kick(address: usize, whom: Whom) -> bool {
    if is_stopping() {
        return false;
    }
    step(Location::caller());
    with(|m| m.kick(Arena::offset(address), whom))
}

impl TorturedMachine {
    fn halt(&mut self, offset: u32, same: bool, deadline_ns: Option<u64>) -> bool {
        assert!(self.waits, "wait was called on a platform that does not wait (P10)");
        self.watch(offset, 0, None);
        let skew = self.cpus[self.cpu()].skew;
        let until = deadline_ns.map_or(u64::MAX, |at| at.saturating_sub(skew));
        if !same || until <= self.core.now {
            return false;
        }
        let state = self.me();
        state.halts += 1;
        let halts = state.halts;
        let first = halts <= self.world.first_spurious;
        let surprise = if self.draining {
            u64::MAX
        } else if first {
            self.core.now + SURPRISE_NS
        } else if self.rng.one_in(self.world.spurious_one_in) {
            self.core.now + self.rng.magnitude(SURPRISE_NS)
        } else {
            u64::MAX
        };
        self.add(self.cpu(), What::Halts { offset });
        self.lose(Status::Halted { offset, until, surprise });
        self.check_wakeups();
        true
    }

    fn was_interrupted(&mut self) -> bool {
        let level = usize::from(self.cpus[self.cpu()].level);
        std::mem::take(&mut self.me().interrupted) && level + 1 < self.world.levels
    }

    fn kick(&mut self, offset: u32, whom: Whom) -> bool {
        let is_meant =
            |state: &CpuState| matches!(whom, Whom::Number(number) if state.number == Some(number));
        let cpu = self.cpus.iter().position(is_meant);
        let all = matches!(whom, Whom::Every(_));
        let classes = match whom {
            Whom::Number(_) => u32::MAX,
            Whom::Any(classes) | Whom::Every(classes) => classes,
        };
        self.count_kick();
        let mut late_ns = 0;
        if !self.draining && self.rng.one_in(self.world.late_one_in) {
            late_ns = self.world.late.draw(&mut self.rng);
            self.note_fault(Fault::LateKick);
        }
        let lock = self.cpus[self.cpu()].op().map(|op| op.lock);
        self.add(self.cpu(), What::Kicks { cpu, offset, late_ns });
        let kick = PendingKick { cpu, offset, lock, all, classes };
        if !self.draining && self.rng.one_in(self.world.twice_one_in) {
            let at = self.core.now + late_ns + self.world.late.draw(&mut self.rng);
            self.note_fault(Fault::TwiceKick);
            self.core.add(at, Event::Kick(kick));
        }
        if late_ns == 0 {
            return self.deliver(kick);
        }
        self.core.add(self.core.now + late_ns, Event::Kick(kick));
        false
    }

    /// An operation may kick once, and once more for each acquisition meanwhile, because a release
    /// that is late then meets the next waiter. A newcomer whose steal clears `HALTED` may also
    /// kick the queue head, within the same bound; its later kicks count as those of a waiter or of
    /// the holder. If the table has few buckets, tickets share them and all their waiters are
    /// kicked.
    fn count_kick(&mut self) {
        let cpu = &mut self.cpus[self.core.current as usize];
        let level = cpu.level;
        let Some(op) = cpu.ops.last_mut().filter(|op| op.level == level) else { return };
        let kind = self.locks[op.lock].kind;
        let exact = kind.promise.layout != Layout::Ticket || self.world.buckets >= 64;
        // Others kick all CPUs that wait for a change, or the next of several.
        let exact = exact && kind.role == Role::Lock;
        let is_fair = op.is_fair;
        let has_queue = kind.promise.layout == Layout::Queue;
        let (whose, kicks) = if has_queue && op.verb.is_some() && !op.joined {
            ("newcomer", &mut op.kicks_as_newcomer)
        } else {
            ("operation", &mut op.kicks)
        };
        *kicks += 1;
        let (lock, kicks, meanwhile) = (op.lock, *kicks, self.locks[op.lock].takes - op.takes);
        // A release of the hybrid lock wakes the queue head and a waiter outside the queue, and a
        // fair one has woken a waiter to hand over to.
        let more = has_queue && kind.promise.passes_awake.is_none();
        let most = if more { 2 + u64::from(is_fair) } else { 1 };
        if kicks > most + meanwhile && exact {
            let text = format!(
                "one {whose} has kicked {kicks} times, with {meanwhile} acquisitions meanwhile"
            );
            self.fail(Some(lock), Property::Kicks, text);
        }
    }

    /// Ends the halts that a kick is for. Returns whether there was one.
    pub(super) fn deliver(&mut self, kick: PendingKick) -> bool {
        self.tally.crossed_kicks += u64::from(self.is_crossed(kick));
        let by_word = kick.cpu.is_none() || self.world.kick_by_word;
        let hears = |status| match status {
            Status::Halted { offset, .. } => !by_word || offset == kick.offset,
            _ => false,
        };
        let halted: Vec<usize> = (0..self.cpus.len())
            .filter(|&cpu| kick.cpu.is_none_or(|only| only == cpu))
            .filter(|&cpu| hears(self.cpus[cpu].status))
            .filter(|&cpu| self.cpus[cpu].classes & kick.classes != 0)
            .collect();
        if halted.is_empty() {
            self.check_wakeups();
            return false;
        }
        if kick.all {
            halted.into_iter().for_each(|cpu| self.wake(cpu, "kicked"));
        } else {
            let cpu = halted[self.rng.index(halted.len())];
            self.wake(cpu, "kicked");
        }
        true
    }

    /// Whether a kick finds its CPU waiting for a lock of a kind other than the one it is for.
    fn is_crossed(&self, kick: PendingKick) -> bool {
        let Some((from, cpu)) = kick.lock.zip(kick.cpu) else { return false };
        let wait = self.cpus[cpu].op().filter(|op| op.verb.is_some());
        wait.is_some_and(|op| !ptr::eq(self.locks[from].kind, self.locks[op.lock].kind))
    }

    /// Whether a kick is on its way that will wake this CPU, which has halted on the word at
    /// `offset`.
    pub(super) fn is_being_kicked(&self, cpu: usize, offset: u32) -> bool {
        self.core.coming().any(|event| match event {
            Event::Kick(kick) => {
                kick.cpu == Some(cpu)
                    || kick.cpu.is_none()
                        && kick.offset == offset
                        && kick.classes & self.cpus[cpu].classes != 0
            }
            Event::Audit => false,
        })
    }
}
