// SPDX-License-Identifier: MIT OR Apache-2.0
//! The models: what CPUs do with a lock, and what must hold in every interleaving.
//!
//! Each model checks all of these at once:
//!
//! * mutual exclusion and the order of critical sections: the protected data is a cell in which
//!   loom finds races;
//! * no lost wake-up: all CPUs end, or loom reports a deadlock;
//! * no access after the release (F4): the last CPU to leave frees the lock, see [`Life`];
//! * for the locks with a queue: no CPU passes a waiter that has disabled stealing, see
//!   [`nobody_passes`].
//!
//! The check also counts what a model reached: events of the lock, and executed call sites.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loom::cell::UnsafeCell;
use overlock::counters::{Class, Event};
use overlock::platform::Platform;
use overlock::raw::{Narrow, Wide};
use overlock::{Hybrid, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

use super::cells::{Byte, Half, Life, Part, Watch, Word};
use super::platform::{self, CPUS, World};
use super::sites::{self, Site};

thread_local! {
    static EVENTS: RefCell<[u64; Event::ALL.len()]> = const { RefCell::new([0; Event::ALL.len()]) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
}

/// The class of all locks of the models: it counts for the thread that checks.
pub(crate) struct Seen;

impl Class for Seen {
    fn count(event: Event) {
        EVENTS.with_borrow_mut(|events| events[event as usize] += 1);
    }
}

/// How much of a model is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the first executions, to see which sites there are.
    Glance,
    /// This many executions with one preemption, and as many with the model's own bound.
    Brief(usize),
    /// Up to the model's own bound on preemptions: minutes for all models together.
    Bounded,
    /// As `Bounded`, then with one more preemption, for at most [`LONG`].
    Long,
}

impl Depth {
    /// The depth asked for: `OVERLOCK_VERIFY` in the environment is `bounded` or `long`, otherwise
    /// `Brief`.
    ///
    /// # Panics
    /// If it is anything else.
    pub(crate) fn wanted() -> Self {
        match std::env::var("OVERLOCK_VERIFY").as_deref() {
            Ok("long") => Self::Long,
            Ok("bounded") => Self::Bounded,
            Ok(other) if !other.is_empty() => {
                panic!("OVERLOCK_VERIFY={other}: choose bounded or long")
            }
            _ => Self::Brief(BRIEF),
        }
    }
}

/// The result of an exploration.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) executions: u64,
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) sites: BTreeMap<Site, Ordering>,
    /// What else happened: see [`sites::reach`].
    pub(crate) reached: BTreeSet<&'static str>,
    /// Why the model failed, if it did.
    pub(crate) failure: Option<String>,
}

/// Explores `execution`, which must depend on nothing but loom's choices.
pub(crate) fn explore(
    preemptions: Option<usize>,
    depth: Depth,
    execution: impl Fn() + Send + Sync + 'static,
) -> Report {
    explore_to(depth, preemptions, &(Arc::new(execution) as Execution))
}

/// One execution of a model. Its type is the same for all models: what explores them, most of it in
/// loom, is then compiled only once.
type Execution = Arc<dyn Fn() + Send + Sync>;

fn explore_to(depth: Depth, preemptions: Option<usize>, execution: &Execution) -> Report {
    match (depth, preemptions) {
        (Depth::Glance, _) => explore_once(preemptions, Some(glance()), None, execution),
        (Depth::Brief(max), _) => {
            let report = explore_once(Some(1), Some(max), None, execution);
            if report.failure.is_some() || preemptions == Some(1) {
                return report;
            }
            report.and(explore_once(preemptions, Some(max), None, execution))
        }
        (Depth::Long, Some(bound)) => {
            let report = explore_once(preemptions, None, None, execution);
            if report.failure.is_some() {
                return report;
            }
            report.and(explore_once(Some(bound + 1), None, Some(LONG), execution))
        }
        (Depth::Bounded | Depth::Long, _) => explore_once(preemptions, None, None, execution),
    }
}

fn explore_once(
    preemptions: Option<usize>,
    max_executions: Option<usize>,
    max_duration: Option<Duration>,
    execution: &Execution,
) -> Report {
    let execution = Arc::clone(execution);
    let mut loom = loom::model::Builder::new();
    loom.max_branches = 20_000;
    loom.preemption_bound = preemptions;
    loom.max_duration = max_duration;
    if let Some(max) = max_executions {
        // It counts them only at checkpoints.
        loom.checkpoint_interval = max;
        loom.max_permutations = Some(max);
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
    let events = Event::ALL.iter().map(|event| (event.name(), counts[*event as usize]));
    Report {
        executions: EXECUTIONS.get(),
        events: events.filter(|(_, count)| *count > 0).collect(),
        sites: sites::executed(),
        reached: sites::reached(),
        failure: result.err().map(|panic| message(&*panic)),
    }
}

impl Depth {
    /// The next depth for a model that has not reached what it exists for.
    pub(crate) fn deeper(self) -> Option<Self> {
        match self {
            Self::Brief(max) if max < BRIEF << 6 => Some(Self::Brief(max << 2)),
            Self::Brief(_) => Some(Self::Bounded),
            Self::Glance | Self::Bounded | Self::Long => None,
        }
    }
}

impl Report {
    /// The result of this exploration and of a further one.
    fn and(mut self, more: Self) -> Self {
        self.executions += more.executions;
        for (event, count) in more.events {
            *self.events.entry(event).or_default() += count;
        }
        self.sites.extend(more.sites);
        self.reached.extend(more.reached);
        self.failure = self.failure.or(more.failure);
        self
    }
}

/// How long each model is explored with one more preemption: all models together take a quarter of
/// an hour.
const LONG: Duration = Duration::from_secs(20);

/// Executions of a [`Depth::Glance`]: few reach every site of the audit, more would find another.
fn glance() -> usize {
    if matches!(Depth::wanted(), Depth::Brief(_)) { 200 } else { 2_000 }
}

/// Executions of each half of a [`Depth::Brief`] at first: all models together then take 20 to
/// 35 s on two CPUs, and nearly all reach what they exist for.
const BRIEF: usize = 1_250;

fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic without a message").to_owned()
}

/// What each CPU does in a model.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How many critical sections each part enters. Each is a CPU's.
    pub(crate) sections: &'static [usize],
    /// The CPU that plays the first part, if it begins with the lock: that is then its first
    /// critical section. Loom prefers CPUs with low numbers, so if this is the last one, the others
    /// queue and halt in the first executions; if it is the first, they come too late for that, and
    /// steal.
    pub(crate) held: Option<usize>,
    /// Parts from this number on first wait until `deadline_ns`, and then without limit.
    pub(crate) timed: usize,
    pub(crate) deadline_ns: u64,
    /// Whether CPUs let others run in between.
    pub(crate) busy: bool,
    /// The bound on preemptions, if there is one.
    pub(crate) preemptions: Option<usize>,
    pub(crate) world: World,
}

impl Plan {
    pub(crate) const PLAIN: Self = Self {
        sections: &[1, 1],
        held: None,
        timed: CPUS,
        deadline_ns: 0,
        busy: false,
        preemptions: Some(2),
        world: World::PLAIN,
    };
}

/// A lock, and what it protects.
pub(crate) struct Scene<L> {
    pub(crate) lock: L,
    life: &'static Life,
    /// How many critical sections are still to come.
    left: UnsafeCell<usize>,
}

impl<L: RawLock + 'static> Scene<L> {
    pub(crate) fn new(
        sections: usize,
        make: fn(&'static Life) -> L,
        watch: Option<Watch>,
    ) -> &'static Self {
        let life = platform::keep(Life::new(watch));
        platform::keep(Self { lock: make(life), life, left: UnsafeCell::new(sections) })
    }

    /// The critical section of a CPU that holds the lock, and its release. The last CPU frees the
    /// lock.
    pub(crate) fn section(&self) {
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

    /// Checks that no CPU has left bits behind in the lock's word.
    pub(crate) fn rest(&self) {
        self.life.rest();
    }
}

/// CPUs enter critical sections of one lock, each after `take` has taken it.
pub(crate) fn sections<L: RawLock + 'static>(
    plan: Plan,
    depth: Depth,
    make: fn(&'static Life) -> L,
    take: fn(&L, usize, &Plan),
    watch: fn() -> Option<Watch>,
) -> Report {
    explore(plan.preemptions, depth, move || {
        platform::open(plan.world, plan.sections.len());
        let scene = Scene::new(plan.sections.iter().sum(), make, watch());
        if plan.held.is_some() && !scene.lock.is_locked() {
            scene.lock.lock();
        }
        let cpus = plan.sections.len();
        platform::run(cpus, move |cpu| {
            let part = (cpu + cpus - plan.held.unwrap_or(0)) % cpus;
            for section in 0..plan.sections[part] {
                if part > 0 || section > 0 || plan.held.is_none() {
                    take(&scene.lock, part, &plan);
                }
                scene.section();
            }
        });
        scene.rest();
        platform::close();
    })
}

/// Waits without limit.
pub(crate) fn lock<L: RawLock>(lock: &L, _part: usize, _plan: &Plan) {
    lock.lock();
}

/// Waits until the deadline of the plan, then without limit.
pub(crate) fn timed<L: RawTimedLock>(lock: &L, part: usize, plan: &Plan) {
    if part < plan.timed {
        return lock.lock();
    }
    if !lock.try_lock_until(plan.deadline_ns) {
        if plan.busy {
            loom::thread::yield_now();
        }
        lock.lock();
    }
}

/// For locks whose word has nothing more to watch.
pub(crate) fn unwatched() -> Option<Watch> {
    None
}

/// The bits of a queue lock's word that its watch checks; see `raw/word/queue.rs`.
mod bits {
    pub(super) const LOCKED: u32 = 1 << 0;
    pub(super) const STEAL: u32 = 1 << 1;
    pub(super) const STEALS: u32 = 0xfff << 1;
    pub(super) const HALTED: u32 = 1 << 13;
    pub(super) const NO_STEALING: u32 = 1 << 14;
    pub(super) const TAIL: u32 = 0xfffe_0000;
}

/// Checks that only the queue head takes the lock while stealing is disabled, or once the head has
/// been passed as often as is allowed: the CPU that takes the lock then leaves the queue. The one
/// exception is the first to pass after a cheap release that missed the queue. No CPU reduces the
/// count but a head that leaves the queue.
pub(crate) fn nobody_passes() -> Option<Watch> {
    use bits::{LOCKED, NO_STEALING, STEAL, STEALS, TAIL};
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        let disables = new & !old & NO_STEALING != 0;
        assert!(!disables || new & STEALS != 0, "CPU {cpu} disables stealing without a count");
        // In strict order the count is one from the start.
        let reduces = new & STEALS < old & STEALS && new & STEALS > STEAL;
        assert!(!reduces, "CPU {cpu} takes steals from the count");
        let takes = new & !old & LOCKED != 0;
        if takes && old & TAIL != 0 {
            let forbidden = old & NO_STEALING != 0 && old & STEALS != 0;
            let passes = new & STEALS > old & STEALS;
            assert!(!passes || !forbidden, "CPU {cpu} passes a head that has disabled stealing");
            let leaves = new & STEALS < old & STEALS;
            let bound = old & STEALS == STEALS;
            assert!(leaves || !bound, "CPU {cpu} passes the queue head beyond the bound");
        }
    });
    Some(Watch { judge, rest: !STEALS })
}

/// Checks [`nobody_passes`], and the promise of the strict order where no waiter gives up: the
/// queue head is passed only while it is halted for the first time, until it has disabled stealing
/// again. The same exception holds: it is the only pass that is not counted at once.
pub(crate) fn in_strict_order() -> Option<Watch> {
    use bits::{HALTED, LOCKED, NO_STEALING, STEALS, TAIL};
    let Watch { mut judge, rest } = nobody_passes()?;
    // Since a CPU became the head: has it halted, and has it disabled stealing after that?
    let (mut halted, mut back) = (false, false);
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        judge(cpu, old, new);
        if new & !old & LOCKED != 0 && old & TAIL != 0 {
            // With `NO_STEALING`, what increases the count is the mark for the next head.
            if new & STEALS > old & STEALS && new & NO_STEALING == 0 {
                assert!(halted, "CPU {cpu} passes a head that has not halted");
                assert!(!back, "CPU {cpu} passes a head that was halted before");
            } else if old & 0xff != 0 {
                (halted, back) = (false, false);
            }
        }
        back |= halted && new & !old & NO_STEALING != 0;
        halted |= new & !old & HALTED != 0;
        if new & TAIL == 0 {
            (halted, back) = (false, false);
        }
    });
    Some(Watch { judge, rest })
}

pub(crate) fn test_and_set<P: Platform<Word = Word>>(life: &'static Life) -> TestAndSet<P, Seen> {
    // SAFETY: each cell holds zero.
    unsafe { TestAndSet::with(Word::new(0, Part::Lock(life))) }
}

pub(crate) fn wide<P: Platform<Half = Half>>(life: &'static Life) -> Ticket<P, Seen, Wide> {
    // SAFETY: each cell holds zero.
    unsafe { Ticket::with(Half::new(0, Part::Lock(life)), Half::new(0, Part::Lock(life))) }
}

pub(crate) fn narrow<P: Platform<Byte = Byte>>(life: &'static Life) -> Ticket<P, Seen, Narrow> {
    // SAFETY: each cell holds zero.
    unsafe { Ticket::with(Byte::new(0, Part::Lock(life)), Byte::new(0, Part::Lock(life))) }
}

pub(crate) fn queued<P: Platform<Word = Word>>(life: &'static Life) -> Queued<P, Seen> {
    // SAFETY: each cell holds zero.
    unsafe { Queued::with(Word::new(0, Part::Lock(life))) }
}

pub(crate) fn hybrid<P: Platform<Word = Word>>(life: &'static Life) -> Hybrid<P, Seen> {
    // SAFETY: each cell holds zero.
    unsafe { Hybrid::with(Word::new(0, Part::Lock(life))) }
}

/// A lock whose queue head may be passed once more. It looks as if a CPU had
/// stolen it from a queue that it has just emptied, which can't happen, but is allowed for here.
pub(crate) fn hybrid_near_bound<P: Platform<Word = Word>>(life: &'static Life) -> Hybrid<P, Seen> {
    let once = bits::STEALS - bits::STEAL;
    // SAFETY: the word has no tail, so it names no waiter that does not exist. `LOCKED` stands for
    // the model, which releases the lock.
    unsafe { Hybrid::with(Word::new(bits::LOCKED | once, Part::Lock(life))) }
}

/// Whether a watch allows a lock's word to become these values, one after another.
fn allows(watch: fn() -> Option<Watch>, words: &[u32]) -> bool {
    let Watch { mut judge, .. } = watch().expect("a watch");
    let judge = || words.windows(2).for_each(|pair| judge(0, pair[0], pair[1]));
    panic::catch_unwind(AssertUnwindSafe(judge)).is_ok()
}

#[test]
fn the_strict_order_lets_a_head_be_passed_only_in_its_first_halt() {
    use bits::{HALTED, LOCKED, NO_STEALING, STEAL};
    let queue = 4 << 16;
    let joined = queue | NO_STEALING | STEAL | LOCKED;
    let halted = queue | HALTED | STEAL | LOCKED;
    let passed = [joined, halted, halted - LOCKED, halted + STEAL];
    let allows = |words: &[u32]| allows(in_strict_order, words);
    assert!(allows(&passed));
    let awake = queue | STEAL;
    assert!(!allows(&[joined, awake, awake + LOCKED + STEAL]));
    let back = queue | NO_STEALING | (2 * STEAL) | LOCKED;
    let again = queue | HALTED | (2 * STEAL);
    assert!(!allows(&[&passed[..], &[back, again, again + LOCKED + STEAL]].concat()));
}

#[test]
fn the_count_is_reduced_only_by_a_head_that_leaves() {
    use bits::{LOCKED, STEAL};
    let allows = |old, new| allows(nobody_passes, &[old, new]);
    let queue = 4 << 16;
    let passed = queue | LOCKED | (3 * STEAL);
    assert!(allows(passed, queue | LOCKED));
    assert!(!allows(passed, passed - STEAL));
}
