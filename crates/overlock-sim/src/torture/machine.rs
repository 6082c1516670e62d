//! The machine: CPUs that share processors in virtual time, and all the faults that can hit them.
//!
//! # State
//!
//! ```text
//!             slice over, yielded
//!          +------------------------------+
//!          v                              |        taken away
//!        Ready --- gets a processor --> Running ---------------> Away
//!          ^                            |  |  |                    |
//!          |                     halts  |  |  | ends               | comes back
//!          |                            v  |  v                    |
//!          +------- woken ----------- Halted, Napping, Done        |
//!          +-------------------------------------------------------+
//! ```
//!
//! Each running CPU has a time at which it makes its next step; the [`engine`](crate::engine) lets
//! the CPU with the earliest go next.
//!
//! # Invariants
//!
//! * M1: the plan of a CPU is its next step if it runs, its return or wake-up if that has a time,
//!   and otherwise void.
//! * M2: at most as many CPUs are `Running` as there are processors.
//! * M3: a kick is delivered once or twice, at once or late, but always delivered.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;

use overlock::counters::Event as Counter;

use crate::engine::{self, Core, Home};
use crate::torture::arena::Arena;
use crate::torture::conditions::{CPUS, Conditions, Hold, Verb};
use crate::torture::failure::{Breach, Property};
use crate::torture::faults::{Fault, Faults, Injection};
use crate::torture::kind::Kind;
use crate::torture::lock_model::LockModel;
use crate::torture::memory::Memory;
use crate::torture::script::Script;
use crate::torture::trace::{self, Trace, What};
use overlock_results::Rng;

pub(crate) mod calls;
mod family;
mod inject;
mod oracles;
mod stuck;
pub(crate) mod wait;

/// How often the machine checks for a stuck lock in the time for which a lock may be stuck.
const AUDITS: u64 = 10;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    #[default]
    Ready,
    Away {
        until: u64,
    },
    Halted {
        offset: u32,
        until: u64,
        surprise: u64,
    },
    Napping {
        until: u64,
    },
    Done,
}

/// A lock operation that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) lock: usize,
    pub(crate) generation: u32,
    /// The verb that began it; `None` for a release.
    pub(crate) verb: Option<Verb>,
    pub(crate) hold: Hold,
    pub(crate) deadline: Option<u64>,
    /// How deep interrupts were nested when it began.
    pub(crate) level: u8,
    pub(crate) began: u64,
    /// How often the lock had been taken when it began.
    pub(crate) takes: u64,
    /// Whether it has joined the lock's queue.
    pub(crate) joined: bool,
    pub(crate) kicks: u64,
    /// Whether it is a release in favour of the queue head.
    pub(crate) is_fair: bool,
    /// Kicks made before it joined the queue.
    pub(crate) kicks_as_newcomer: u64,
    /// Whether it is a wait for a notification that ends by a panic once it has released its lock.
    pub(crate) cancelled: bool,
}

#[derive(Debug, Default)]
pub(crate) struct CpuState {
    pub(crate) status: Status,
    /// When it makes its next step, if it runs.
    at: u64,
    slice_end: u64,
    /// Since when it has been running.
    pub(crate) since: u64,
    pub(crate) number: Option<usize>,
    skew: u64,
    pub(crate) level: u8,
    pub(crate) ops: Vec<Op>,
    halts: u32,
    /// The classes of waiters to which it belongs while it is halted.
    classes: u32,
    /// Whether it was woken in order to be interrupted.
    interrupted: bool,
    /// Whether the sequence that it began last will not store.
    cut_off: bool,
    /// How many acquisitions it has made.
    pub(crate) rounds: u64,
}

impl CpuState {
    /// Whether the CPU has something to do but is not running.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.status, Status::Away { .. } | Status::Ready)
    }

    /// The operation of the innermost context, if that context is inside one.
    pub(crate) fn op(&self) -> Option<&Op> {
        self.ops.last().filter(|op| op.level == self.level)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingKick {
    cpu: Option<usize>,
    offset: u32,
    /// The lock that it is for, if a lock made it.
    lock: Option<usize>,
    /// Whether it wakes all CPUs that wait there, not just one.
    all: bool,
    /// The classes of waiters that it wakes.
    classes: u32,
}

/// Something that happens without a CPU's doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Kick(PendingKick),
    /// The machine checks for stuck locks.
    Audit,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) acquisitions: u64,
    pub(crate) faults: Faults,
    pub(crate) events: [u64; Counter::ALL.len()],
    pub(crate) longest_bypass: u32,
    pub(crate) takeovers: u64,
    pub(crate) crossed_kicks: u64,
}

/// What the CPUs of a run do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// What a CPU does from beginning to end.
    pub(crate) task: fn(cpu: usize),
    /// What an interrupt of that level does.
    pub(crate) handler: fn(level: usize),
}

pub(crate) struct TorturedMachine {
    program: Program,
    /// Whether CPUs can wait on the platform of its locks.
    pub(crate) waits: bool,
    pub(crate) world: Conditions,
    pub(crate) rng: Rng,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) locks: Vec<LockModel>,
    pub(crate) failure: Option<Breach>,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) core: Core<Event>,
    /// Whether there are no more faults and no more work, so that all CPUs finish.
    pub(crate) draining: bool,
    /// What CPUs hold that another may release: the lock, the holder, and what for.
    pub(crate) given: Vec<(usize, usize, Hold)>,
    /// Whether the release under way is that of another CPU's hold.
    pub(crate) releases_given: bool,
    memory: Memory,
    /// What the subject writes in place of a queue node's state, if it is wrong on purpose.
    pub(crate) numbers: Option<fn(u32) -> u32>,
    pub(crate) script: Option<&'static Script>,
    /// What the plan injects and has not happened yet; the last element comes first.
    pub(crate) injected_faults: Vec<Injection>,
    /// The CPU that a script stops while the others go on.
    stopped: Option<usize>,
    visits: BTreeMap<(&'static str, u32, u32), u32>,
    eligible: u64,
    ready: VecDeque<usize>,
    until_away: u64,
    until_interrupt: u64,
    steps_most: u64,
}

impl TorturedMachine {
    pub(crate) fn new(
        program: Program,
        waits: bool,
        world: Conditions,
        kinds: &[&'static Kind],
        memory: Memory,
        mut rng: Rng,
        steps: u64,
    ) -> Self {
        // The numbers lie far apart and reach the maximum, so that tail codes of all widths occur.
        let numbers = [0, 1, 2, 62, 63, 1_000, 16_381, 16_382];
        let first = rng.index(numbers.len());
        let cpus: Vec<CpuState> = (0..world.cpus)
            .map(|index| CpuState {
                number: (!rng.one_in(world.anonymous_one_in))
                    .then_some(numbers[(first + index) % CPUS]),
                skew: rng.below(world.skew + 1),
                classes: u32::MAX,
                ..CpuState::default()
            })
            .collect();
        let place = |(line, kind): (usize, &&'static Kind)| {
            LockModel::new(kind, (kind.place)(Arena::line(line)))
        };
        let locks = kinds.iter().enumerate().map(place).collect();
        Self {
            program,
            waits,
            script: None,
            injected_faults: Vec::new(),
            stopped: None,
            memory,
            numbers: None,
            locks,
            failure: None,
            tally: Tally::default(),
            trace: Trace::new(),
            core: Core::new(cpus.len()),
            draining: false,
            given: Vec::new(),
            releases_given: false,
            visits: BTreeMap::new(),
            eligible: 0,
            ready: VecDeque::new(),
            until_away: gap(&mut rng, world.away_one_in),
            until_interrupt: gap(&mut rng, world.interrupt_one_in),
            steps_most: steps,
            cpus,
            world,
            rng,
        }
    }

    /// Plans what next happens to a CPU without another's doing (M1).
    fn plan(&mut self, cpu: usize) {
        match self.cpus[cpu].due() {
            u64::MAX => self.core.withdraw(cpu as u32),
            at => self.core.plan(cpu as u32, at),
        }
    }

    fn plan_audit(&mut self) {
        self.core.add(self.core.now + self.world.stuck_ns / AUDITS, Event::Audit);
    }

    fn timer(&mut self, cpu: usize) {
        match self.cpus[cpu].status {
            Status::Halted { until, surprise, .. } => {
                let why = if surprise < until {
                    // In a script, only the plan interrupts CPUs.
                    let may = self.script.is_none() && self.world.levels > 1;
                    self.cpus[cpu].interrupted = may && self.rng.one_in(2);
                    self.note_fault(Fault::Spurious);
                    "for no reason"
                } else {
                    "deadline"
                };
                self.wake(cpu, why);
            }
            Status::Away { .. } | Status::Napping { .. } => {
                if self.stopped.take_if(|stopped| *stopped == cpu).is_some() {
                    self.check_stop(cpu);
                }
                self.cpus[cpu].status = Status::Ready;
                self.gain(cpu);
            }
            Status::Running | Status::Ready | Status::Done => {}
        }
    }

    /// Wakes a halted CPU: it runs a little later, if there is a processor.
    fn wake(&mut self, cpu: usize, why: &'static str) {
        self.add(cpu, What::Wakes { why });
        let until = self.core.now + self.world.wake.draw(&mut self.rng);
        self.cpus[cpu].status = Status::Away { until };
        self.plan(cpu);
    }

    /// Gives a ready CPU a processor, or puts it in the queue for one.
    fn gain(&mut self, cpu: usize) {
        let running = self.cpus.iter().filter(|cpu| cpu.status == Status::Running).count();
        if running >= self.world.pcpus {
            self.ready.push_back(cpu);
            return;
        }
        let slice = self.world.slice.draw(&mut self.rng);
        let state = &mut self.cpus[cpu];
        state.status = Status::Running;
        state.at = self.core.now;
        state.since = self.core.now;
        state.slice_end = self.core.now + slice;
        self.plan(cpu);
        self.add(cpu, What::Runs);
    }

    /// Takes the processor from the current CPU, whose state is `status` from now on.
    fn lose(&mut self, status: Status) {
        self.me().status = status;
        self.plan(self.cpu());
        if let Some(next) = self.ready.pop_front() {
            self.gain(next);
        }
        if status == Status::Ready {
            self.gain(self.cpu());
        }
    }

    /// Adds to the current CPU's time. Returns whether something else comes first.
    fn pass(&mut self, ns: u64) -> bool {
        let me = self.me();
        me.at += ns;
        let at = me.at;
        let others_first = !self.core.has_turn(at);
        if others_first {
            self.plan(self.cpu());
        }
        others_first
    }

    pub(crate) fn add(&mut self, cpu: usize, what: What) {
        let level = self.cpus[cpu].level;
        self.trace.add(trace::Event { at: self.core.now, cpu: cpu as u8, level, what });
    }

    /// Whether an access marks a waiter as about to be kicked by this CPU although another CPU had
    /// already marked it (Q6 in `queue.rs`; the mark is 6 and the number of its CPU, plus one).
    fn is_takeover(&self, site: &Location<'_>, offset: u32, old: u32, new: Option<u32>) -> bool {
        const KICKING: u32 = 6;
        let number = self.cpus[self.cpu()].number.unwrap_or(usize::MAX);
        let mine = KICKING | (number.wrapping_add(1) as u32) << 16;
        new == Some(mine)
            && old & 0xffff == KICKING
            && old != mine
            && Arena::lock_at(offset).is_none()
            && site.file().ends_with("queue/kick.rs")
    }

    /// What is written at this offset in place of `value`.
    fn number(&self, offset: u32, value: u32) -> u32 {
        match self.numbers {
            Some(number) if self.memory.states.binary_search(&offset).is_ok() => number(value),
            _ => value,
        }
    }

    pub(crate) fn cpu(&self) -> usize {
        self.core.current as usize
    }

    fn me(&mut self) -> &mut CpuState {
        &mut self.cpus[self.core.current as usize]
    }

    /// How far the current CPU's clock is ahead.
    pub(crate) fn skew(&self) -> u64 {
        self.cpus[self.cpu()].skew
    }

    pub(crate) fn note_fault(&mut self, fault: Fault) {
        self.tally.faults.add(fault);
    }

    pub(crate) fn fail(&mut self, lock: Option<usize>, oracle: Property, text: String) {
        if self.failure.is_none() {
            let (at_ns, cpu) = (self.core.now, self.cpu());
            self.failure = Some(Breach { oracle, at_ns, cpu, lock, text });
            // The running CPU stops at its next step.
            self.core.interrupt();
        }
    }
}

impl CpuState {
    /// When something next happens to this CPU without another's doing.
    fn due(&self) -> u64 {
        match self.status {
            Status::Running => self.at,
            Status::Away { until } | Status::Napping { until } => until,
            Status::Halted { until, surprise, .. } => until.min(surprise),
            Status::Ready | Status::Done => u64::MAX,
        }
    }
}

/// What happens to a CPU before an access.
#[derive(Clone, Copy, Debug)]
enum AtStep {
    Nothing,
    Suspend,
    Interrupt,
}

/// The number of steps until the next fault that occurs once in `one_in`.
fn gap(rng: &mut Rng, one_in: u32) -> u64 {
    if one_in == 0 { u64::MAX } else { 1 + rng.below(2 * u64::from(one_in)) }
}

impl engine::Machine for TorturedMachine {
    type Event = Event;

    fn home<R>(visit: impl FnOnce(&Home<Self>) -> R) -> R {
        thread_local! {
            static HOME: Home<TorturedMachine> = const { Home::empty() };
        }
        HOME.with(visit)
    }

    fn core(&mut self) -> &mut Core<Event> {
        &mut self.core
    }

    fn start(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.gain(cpu));
        self.plan_audit();
    }

    fn is_over(&mut self) -> bool {
        let something = self.cpus.iter().any(|cpu| cpu.due() != u64::MAX)
            || self.core.coming().any(|event| matches!(event, Event::Kick(_)));
        if !something {
            self.end();
        }
        !something || self.failure.is_some()
    }

    fn is_due(&mut self, cpu: u32) -> bool {
        let cpu = cpu as usize;
        let runs = self.cpus[cpu].status == Status::Running;
        if !runs {
            self.timer(cpu);
        }
        runs
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Kick(kick) => _ = self.deliver(kick),
            Event::Audit => self.audit(),
        }
    }

    fn ended(&mut self) {
        self.lose(Status::Done);
    }

    fn program(cpu: u32) {
        (engine::with(|m: &mut Self| m.program.task))(cpu as usize);
    }
}
