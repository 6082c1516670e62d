//! A run: what its CPUs do, and what it reports at its end.

use std::panic::{self, AssertUnwindSafe};

use overlock::counters::Event;

use crate::torture::arena::Arena;
use crate::torture::conditions::{Conditions, Hold, Verb};
use crate::torture::failure::Breach;
use crate::torture::faults::Faults;
use crate::torture::kind::{Kind, Role};
use crate::torture::machine::calls::{self, with};
use crate::torture::machine::{Program, TorturedMachine};
use crate::torture::memory::Memory;
use crate::torture::plan::FaultPlan;
use crate::torture::script::SCRIPTS;
use crate::torture::subject::Subject;
use job::{Job, acquire, is_usable, release};
use overlock_results::Rng;

mod job;
mod monitor;
mod sharing;

/// The number of steps after which a script, which is much shorter, counts as endless.
const SCRIPT_STEPS: u64 = 5_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TortureReport {
    /// How many atomic accesses were made.
    pub steps: u64,
    /// How many acquisitions were made, of all locks together.
    pub acquisitions: u64,
    pub virtual_ns: u64,
    pub faults: Faults,
    /// Events that the locks reported, in the order of [`Event::ALL`].
    pub events: [u64; Event::ALL.len()],
    /// The most acquisitions by others that a queue head has seen.
    pub longest_bypass: u32,
    /// How often a release took over a kick that another had begun.
    pub takeovers: u64,
    /// How many kicks found their CPU waiting for a lock of a kind other than the one they were
    /// for.
    pub crossed_kicks: u64,
    /// Whether everything that the plan injects has happened; it has not if the CPU finished
    /// earlier.
    pub injected: bool,
    /// A hash of everything that happened.
    pub hash: u64,
    pub failure: Option<Breach>,
    /// If something went wrong, the last events before that.
    pub trace: Vec<String>,
}

/// Runs one plan. The report is a function of `subject` and `plan`.
///
/// # Panics
/// If the system refuses memory.
pub fn run(subject: &'static Subject, plan: FaultPlan) -> TortureReport {
    let mut arena = Arena::enter();
    let mut machine = match plan {
        FaultPlan::Random { seed, steps, cpus } => {
            let mut rng = Rng::new(seed);
            let mut world = Conditions::draw(&mut rng, cpus, subject.waits);
            if subject.is_mixed() {
                world.locks = world.locks.max(2);
            }
            let kinds = subject.draw(&mut rng, world.locks * world.levels);
            let memory = Memory::lay_out(&mut arena, &world);
            TorturedMachine::new(PROGRAM, subject.waits, world, &kinds, memory, rng, steps)
        }
        FaultPlan::Inject { script, role, step, then } => {
            let world = SCRIPTS[script].world(subject.waits);
            let kinds = SCRIPTS[script].kinds.map(|index| subject.kind(index));
            let kinds = &kinds[..world.locks * world.levels];
            let (rng, waits) = (Rng::new(0), subject.waits);
            let memory = Memory::lay_out(&mut arena, &world);
            let mut machine =
                TorturedMachine::new(PROGRAM, waits, world, kinds, memory, rng, SCRIPT_STEPS);
            machine.injected_faults = SCRIPTS[script].injected_faults(role, step, then, waits);
            machine.script = Some(&SCRIPTS[script]);
            machine
        }
    };
    machine.numbers = subject.numbers;
    let machine = calls::enter(machine);
    TortureReport {
        steps: machine.tally.steps,
        acquisitions: machine.tally.acquisitions,
        virtual_ns: machine.core.now,
        faults: machine.tally.faults,
        events: machine.tally.events,
        longest_bypass: machine.tally.longest_bypass,
        takeovers: machine.tally.takeovers,
        crossed_kicks: machine.tally.crossed_kicks,
        injected: machine.script.is_some() && machine.injected_faults.is_empty(),
        hash: machine.trace.hash,
        trace: if machine.failure.is_some() { machine.trace.lines() } else { Vec::new() },
        failure: machine.failure,
    }
}

/// Runs random work on a random world under random faults.
///
/// # Panics
/// If the system refuses memory.
pub fn torture(subject: &'static Subject, seed: u64, steps: u64) -> TortureReport {
    run(subject, FaultPlan::Random { seed, steps, cpus: None })
}

/// What the CPUs of every run do.
const PROGRAM: Program = Program { task, handler };

/// What a CPU does from beginning to end.
fn task(cpu: usize) {
    match with(|m| m.script) {
        Some(script) => {
            let part = with(|m| script.part(cpu, m.waits));
            calls::spend(part.arrives_ns);
            if with(|m| m.locks[0].kind.role == Role::Monitor) {
                return monitor::play(script, part, cpu);
            }
            for round in 0..part.rounds {
                let first = round == 0;
                let lock = part.locks[usize::from(!first)];
                let Kind { timed, role, .. } = *with(|m| m.locks[lock].kind);
                let timed = timed && first && part.timeout_ns > 0;
                let timed = timed || cpu == 2 && role == Role::Value;
                perform(Job {
                    lock,
                    verb: match timed {
                        _ if part.tries => Verb::Try,
                        true => Verb::Until,
                        false => Verb::Lock,
                    },
                    hold: part.hold,
                    changes: part.changes,
                    timeout_ns: part.timeout_ns,
                    on_its_way_ns: part.on_its_way_ns,
                    hold_ns: part.hold_ns[usize::from(!first)],
                    ..Job::PLAIN
                });
                calls::spend(part.pause_ns);
            }
        }
        None => {
            while !with(|m| m.draining) {
                iteration(0);
                let ns = with(|m| m.world.pause.draw(&mut m.rng));
                calls::compute(ns);
                release_given();
            }
            if cpu == 0 {
                monitor::release_all();
            }
        }
    }
}

fn handler(level: usize) {
    if with(|m| m.script.is_some()) {
        perform(Job { lock: level, ..Job::PLAIN });
    } else {
        iteration(level);
    }
}

/// Makes one random acquisition of a lock of this level, if one is available.
fn iteration(level: usize) {
    if let Some(job) = with(|m| choose(m, level)) {
        perform(job);
    }
}

fn choose(m: &mut TorturedMachine, level: usize) -> Option<Job> {
    let first = level * m.world.locks;
    let lock = first + m.rng.index(m.world.locks);
    if !is_usable(m, lock) {
        return None;
    }
    let inner = m.rng.one_in(m.world.nest_one_in).then_some(lock + 1);
    Some(Job {
        lock,
        verb: verb(m),
        hold: sharing::hold(m, lock),
        changes: m.locks[lock].kind.role == Role::ReadWrite && m.rng.one_in(3),
        timeout_ns: m.world.timeout.draw(&mut m.rng),
        on_its_way_ns: 0,
        hold_ns: m.world.hold.draw(&mut m.rng),
        inner: inner.filter(|&inner| inner < first + m.world.locks),
    })
}

fn verb(m: &mut TorturedMachine) -> Verb {
    let [lock, attempt, until] = m.world.verbs;
    match m.rng.below(lock + attempt + until) {
        n if n < lock => Verb::Lock,
        n if n < lock + attempt => Verb::Try,
        _ => Verb::Until,
    }
}

/// What the computation of a refresh panics with when it fails.
struct NoClock;

/// Asks for a shared value, and refreshes it if necessary.
fn ask(job: Job) {
    let (verbs, verb, known, begun, fails) = with(|m| {
        let verb = if m.script.is_some() && m.cpu() == 3 { Verb::Last } else { job.verb.shared() };
        m.begin_lock(job.lock, verb, None, Hold::Read);
        let model = &m.locks[job.lock];
        let (verbs, known, begun) = (model.verbs, model.known, model.begun);
        (verbs, verb, known, begun, m.rng.one_in(m.world.nest_one_in))
    });
    calls::spend(job.on_its_way_ns);
    let compute = || {
        let number = with(|m| m.begin_refresh(job.lock));
        calls::compute(job.hold_ns);
        with(|m| m.locks[job.lock].owner = None);
        if fails {
            panic::resume_unwind(Box::new(NoClock));
        }
        number
    };
    let answer = match panic::catch_unwind(AssertUnwindSafe(|| verbs.ask(verb, &compute))) {
        Ok(answer) => Some(answer),
        Err(ours) if ours.is::<NoClock>() => None,
        Err(other) => panic::resume_unwind(other),
    };
    with(|m| m.end_ask(known, begun, answer));
}

fn perform(job: Job) {
    match with(|m| m.locks[job.lock].kind.role) {
        Role::Value => return ask(job),
        Role::Monitor => return monitor::perform(job),
        Role::Lock | Role::ReadWrite => {}
    }
    if !acquire(job) {
        return;
    }
    calls::compute(job.hold_ns);
    let hold = if job.changes { sharing::change(job) } else { job.hold };
    if let Some(lock) = job.inner.filter(|&lock| with(|m| is_usable(m, lock))) {
        let (hold, role) = with(|m| (sharing::hold(m, lock), m.locks[lock].kind.role));
        let verb = if role == Role::Monitor { Verb::Until } else { job.verb };
        let changes = job.changes && role == Role::ReadWrite;
        perform(Job { lock, verb, hold, changes, inner: None, ..job });
    }
    if !with(|m| m.leaves(job.lock, hold)) {
        release(job.lock, hold);
    }
}

/// Releases what CPUs have left to others. No CPU waits while it has left something.
fn release_given() {
    while let Some((lock, hold)) = with(TorturedMachine::takes_over) {
        release(lock, hold);
        with(|m| m.releases_given = false);
    }
}
