// SPDX-License-Identifier: MIT OR Apache-2.0
//! The models: what CPUs do with a lock, and what must hold in every interleaving.
//!
//! Each model checks at once
//!
//! * mutual exclusion and the order of sections: the protected data is a cell in which loom finds races;
//! * no lost wake-up: all CPUs end, or loom reports a deadlock;
//! * no access after the release (F4): the last CPU to leave frees the lock, see [`Life`];
//! * for the locks with a line, that nobody passes a waiter that has declared itself, see [`nobody_passes`].
//!
//! What a model reached is counted: events of the lock, and executed call sites.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use overlock::counters::{Class, Event};
use overlock::platform::Platform;
use overlock::{Hybrid, Narrow, Queued, RawLock, RawTimedLock, TestAndSet, Ticket, Wide};

use super::cells::{Byte, Half, Life, Oracle, Word};
use super::platform::{self, ByAddress, CPUS, Halt, Halting, Spinning, World};
use super::sites::{self, Site};

thread_local! {
    static EVENTS: RefCell<[u64; Event::ALL.len()]> = const { RefCell::new([0; Event::ALL.len()]) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
}

/// The class of all locks of the models: counts for the thread that checks.
pub struct Seen;

impl Class for Seen {
    fn count(event: Event) {
        EVENTS.with_borrow_mut(|events| events[event as usize] += 1);
    }
}

/// How much of a model is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The first executions only, to see which sites there are.
    Glance,
    /// Up to the model's own bound on preemptions: minutes for all models together.
    Bounded,
    /// One preemption more.
    Long,
}

/// What came of an exploration.
#[derive(Debug, Default)]
pub struct Report {
    pub executions: u64,
    pub events: BTreeMap<&'static str, u64>,
    pub sites: BTreeMap<Site, Ordering>,
    /// Why the model failed, if it did.
    pub failure: Option<String>,
}

/// Explores `execution`, which must not depend on anything but loom's choices.
pub fn explore(
    preemptions: Option<usize>,
    depth: Depth,
    execution: impl Fn() + Send + Sync + 'static,
) -> Report {
    let mut loom = loom::model::Builder::new();
    loom.max_branches = 20_000;
    let more = usize::from(depth == Depth::Long);
    loom.preemption_bound = preemptions.map(|bound| bound + more);
    if depth == Depth::Glance {
        loom.checkpoint_interval = GLANCE;
        loom.max_permutations = Some(GLANCE);
    }
    EVENTS.set([0; Event::ALL.len()]);
    EXECUTIONS.set(0);
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        loom.check(move || {
            EXECUTIONS.set(EXECUTIONS.get() + 1);
            execution();
        });
    }));
    let counts = EVENTS.with_borrow(|counts| *counts);
    let events = Event::ALL.into_iter().map(|event| (event.name(), counts[event as usize]));
    Report {
        executions: EXECUTIONS.get(),
        events: events.filter(|(_, count)| *count > 0).collect(),
        sites: sites::executed(),
        failure: result.err().map(|panic| message(&*panic)),
    }
}

/// Executions of a [`Depth::Glance`].
const GLANCE: usize = 2_000;

fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic without words").to_owned()
}

/// Who does what in a model.
#[derive(Clone, Copy)]
pub struct Plan {
    /// How many sections each CPU enters.
    pub sections: &'static [usize],
    /// CPU 0 holds the lock before the others start: its first section is that one.
    pub held: bool,
    /// CPUs from this one on wait no longer than until `deadline_ns`, and then without limit.
    pub timed: usize,
    pub deadline_ns: u64,
    /// The bound on preemptions, if there is one.
    pub preemptions: Option<usize>,
    pub world: World,
}

impl Plan {
    pub const PLAIN: Self = Self {
        sections: &[1, 1],
        held: false,
        timed: CPUS,
        deadline_ns: 0,
        preemptions: Some(2),
        world: World::PLAIN,
    };
}

/// A lock, and what it protects.
pub struct Scene<L> {
    lock: L,
    life: &'static Life,
    /// How many sections are still to come.
    left: UnsafeCell<usize>,
}

impl<L: RawLock + 'static> Scene<L> {
    pub fn new(
        sections: usize,
        make: fn(&'static Life) -> L,
        oracle: Option<Oracle>,
    ) -> &'static Self {
        let life = platform::keep(Life::new(oracle));
        platform::keep(Self { lock: make(life), life, left: UnsafeCell::new(sections) })
    }

    /// The section of a CPU that holds the lock, and the release. Whoever was last frees the lock.
    pub fn section(&self) {
        let last = self.left.with_mut(|left| {
            // SAFETY: the lock excludes the others; loom fails the model if it does not.
            let left = unsafe { &mut *left };
            *left -= 1;
            *left == 0
        });
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.unlock() };
        if last {
            self.life.end();
        }
    }
}

/// CPUs enter sections of one lock.
pub fn sections<P: Platform<Word = Word>, L: RawLock + 'static>(
    plan: Plan,
    depth: Depth,
    make: fn(&'static Life) -> L,
    take: fn(&L, usize, &Plan),
    oracle: fn() -> Option<Oracle>,
) -> Report {
    explore(plan.preemptions, depth, move || {
        platform::open::<P>(plan.world);
        let scene = Scene::new(plan.sections.iter().sum(), make, oracle());
        if plan.held {
            scene.lock.lock();
        }
        platform::run(plan.sections.len(), move |cpu| {
            for section in 0..plan.sections[cpu] {
                if cpu > 0 || section > 0 || !plan.held {
                    take(&scene.lock, cpu, &plan);
                }
                scene.section();
            }
        });
    })
}

/// Waits without limit.
pub fn lock<L: RawLock>(lock: &L, _cpu: usize, _plan: &Plan) {
    lock.lock();
}

/// Waits until the deadline of the plan, then without limit.
pub fn timed<L: RawTimedLock>(lock: &L, cpu: usize, plan: &Plan) {
    if cpu < plan.timed || !lock.try_lock_until(plan.deadline_ns) {
        lock.lock();
    }
}

pub fn unwatched() -> Option<Oracle> {
    None
}

pub fn test_and_set<P: Platform<Word = Word>>(life: &'static Life) -> TestAndSet<P, Seen> {
    TestAndSet::with(Word::of_lock(0, life))
}

pub fn wide<P: Platform<Half = Half>>(life: &'static Life) -> Ticket<P, Seen, Wide> {
    Ticket::with(Half::of_lock(0, life), Half::of_lock(0, life))
}

pub fn narrow<P: Platform<Byte = Byte>>(life: &'static Life) -> Ticket<P, Seen, Narrow> {
    Ticket::with(Byte::of_lock(0, life), Byte::of_lock(0, life))
}

pub fn queued<P: Platform<Word = Word>>(life: &'static Life) -> Queued<P, Seen> {
    Queued::with(Word::of_lock(0, life))
}

pub fn hybrid<P: Platform<Word = Word>>(life: &'static Life) -> Hybrid<P, Seen> {
    Hybrid::with(Word::of_lock(0, life))
}
