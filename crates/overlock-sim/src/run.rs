// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run: what its CPUs do, and what is reported at its end.

use overlock::counters::Event;

use crate::arena::Arena;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::machine::{self, Machine, with};
use crate::plan::{Injection, Plan};
use crate::rng::Rng;
use crate::script::SCRIPTS;
use crate::subject::Subject;
use crate::world::{Verb, World};

/// Steps after which a script, which is much shorter, is called endless.
const SCRIPT_STEPS: u64 = 5_000_000;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Atomic accesses.
    pub steps: u64,
    /// Acquisitions of all locks.
    pub acquisitions: u64,
    /// Virtual time, in nanoseconds.
    pub virtual_ns: u64,
    /// Faults injected.
    pub faults: Faults,
    /// Events that the locks reported, in the order of [`Event::ALL`].
    pub events: [u64; Event::ALL.len()],
    /// The most acquisitions by others that a first in line has seen.
    pub longest_bypass: u32,
    /// Whether the plan's preemption has come about: not if the CPU had finished before.
    pub injected: bool,
    /// A hash of everything that happened.
    pub hash: u64,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// If something went wrong: the last events before.
    pub trace: Vec<String>,
}

/// Runs one plan. The report is a function of `subject` and `plan`.
///
/// # Panics
/// If the system refuses memory.
pub fn run(subject: &'static Subject, plan: Plan) -> Report {
    let mut arena = Arena::enter();
    let machine = match plan {
        Plan::Random { seed, steps, cpus } => {
            let mut rng = Rng::new(seed);
            let world = World::draw(&mut rng, cpus, subject.waits);
            Machine::new(subject, world, rng, &mut arena, None, steps)
        }
        Plan::Inject { script, role, step } => {
            let injection = Injection::new(role, step, subject.waits);
            let world = SCRIPTS[script].world(subject.waits);
            let rng = Rng::new(0);
            let mut machine =
                Machine::new(subject, world, rng, &mut arena, Some(injection), SCRIPT_STEPS);
            machine.script = Some(&SCRIPTS[script]);
            machine
        }
    };
    let machine = machine::enter(machine);
    Report {
        steps: machine.tally.steps,
        acquisitions: machine.tally.acquisitions,
        virtual_ns: machine.now,
        faults: machine.tally.faults,
        events: machine.tally.events,
        longest_bypass: machine.tally.longest_bypass,
        injected: machine.fired,
        hash: machine.trace.hash(),
        trace: if machine.failure.is_some() { machine.trace.lines() } else { Vec::new() },
        failure: machine.failure,
    }
}

/// Runs random work on a random world under random faults.
///
/// # Panics
/// If the system refuses memory.
pub fn torture(subject: &'static Subject, seed: u64, steps: u64) -> Report {
    run(subject, Plan::Random { seed, steps, cpus: None })
}

/// One acquisition to be made.
#[derive(Clone, Copy, Debug)]
struct Job {
    lock: usize,
    verb: Verb,
    patience_ns: u64,
    on_its_way_ns: u64,
    hold_ns: u64,
    /// Another lock to be taken inside.
    inner: Option<usize>,
}

/// What a CPU does from beginning to end.
pub(crate) fn task(cpu: usize) {
    match with(|m| m.script) {
        Some(script) => {
            let part = script.part(cpu);
            machine::spend(part.arrives_ns);
            for round in 0..part.rounds {
                let first = round == 0;
                let timed = first && part.patience_ns > 0 && with(|m| m.subject.timed);
                perform(Job {
                    lock: 0,
                    verb: if timed { Verb::Until } else { Verb::Lock },
                    patience_ns: part.patience_ns,
                    on_its_way_ns: part.on_its_way_ns,
                    hold_ns: part.hold_ns[usize::from(!first)],
                    inner: None,
                });
                machine::spend(part.pause_ns);
            }
        }
        None => {
            while !with(|m| m.draining) {
                iteration(0);
                let ns = with(|m| m.world.pause.draw(&mut m.rng));
                machine::compute(ns);
            }
        }
    }
}

/// One random acquisition of a lock of this level, if there is one to be had.
pub(crate) fn iteration(level: usize) {
    if let Some(job) = with(|m| choose(m, level)) {
        perform(job);
    }
}

fn choose(m: &mut Machine, level: usize) -> Option<Job> {
    let first = level * m.world.locks;
    let lock = first + m.rng.index(m.world.locks);
    if !is_usable(m, lock) {
        return None;
    }
    let inner = m.rng.one_in(m.world.nest_one_in).then_some(lock + 1);
    Some(Job {
        lock,
        verb: verb(m),
        patience_ns: m.world.patience.draw(&mut m.rng),
        on_its_way_ns: 0,
        hold_ns: m.world.hold.draw(&mut m.rng),
        inner: inner.filter(|&inner| inner < first + m.world.locks),
    })
}

/// Whether there is a lock, or can be one again.
fn is_usable(m: &mut Machine, lock: usize) -> bool {
    if m.locks[lock].freed {
        m.revive(lock);
    }
    m.locks[lock].closing.is_none()
}

fn verb(m: &mut Machine) -> Verb {
    let [lock, attempt, until] = m.world.verbs;
    let drawn = m.rng.below(lock + attempt + until);
    match drawn {
        n if n < lock => Verb::Lock,
        n if n < lock + attempt || !m.subject.timed => Verb::Try,
        _ => Verb::Until,
    }
}

/// Acquires, works, releases.
fn perform(job: Job) {
    let (verbs, deadline) = with(|m| {
        let now = m.now + m.skew();
        let deadline = (job.verb == Verb::Until).then_some(now + job.patience_ns);
        m.begin_lock(job.lock, job.verb, deadline);
        (m.locks[job.lock].verbs, deadline)
    });
    machine::spend(job.on_its_way_ns);
    let got = match (job.verb, deadline) {
        (Verb::Until, Some(deadline)) => verbs.try_lock_until(deadline),
        (Verb::Try, _) => verbs.try_lock(),
        _ => {
            verbs.lock();
            true
        }
    };
    with(|m| m.end_lock(got));
    if !got {
        return;
    }
    machine::compute(job.hold_ns);
    if let Some(lock) = job.inner.filter(|&lock| with(|m| is_usable(m, lock))) {
        perform(Job { lock, inner: None, ..job });
    }
    let fair = with(|m| {
        m.begin_unlock(job.lock);
        m.rng.one_in(m.world.fair_one_in)
    });
    if fair {
        verbs.unlock_fair();
    } else {
        verbs.unlock();
    }
    with(Machine::end_unlock);
}
