//! What a model is: steps of CPUs in a scene, and what an exploration must have reached: events of
//! the lock, and executed call sites.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use overlock::counters::{Class, Event};

use super::platform::{self, World};
use super::sites::{self, Site};
use super::{condvars, refreshes, shared, table, unsure};

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

/// What the CPUs of a model share in one execution.
pub(crate) trait Scene: 'static {
    type Step: Copy + Send + Sync;
    /// The calling CPU makes a step. Returns false if it makes no more.
    fn step(&'static self, step: Self::Step) -> bool;
    /// Checks what must hold once all CPUs have left.
    fn rest(&self) {}
}

/// What each CPU does, one step after the other.
pub(crate) type Steps<S> = &'static [&'static [S]];

/// Explores the steps of CPUs in a scene that each execution sets anew.
pub(crate) fn play<S: Scene>(
    world: World,
    preemptions: Option<usize>,
    steps: Steps<S::Step>,
    set: impl Fn() -> &'static S + Send + Sync + 'static,
) -> impl FnOnce(Depth) -> Report {
    move |depth| {
        explore(preemptions, depth, move || {
            platform::open(world, steps.len());
            let scene = set();
            platform::run(steps.len(), move |cpu| {
                let _ends_early = !steps[cpu].iter().all(|&step| scene.step(step));
            });
            scene.rest();
            platform::close();
        })
    }
}

pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Depth) -> Report,
    /// Events that must have occurred.
    pub(crate) events: &'static [Event],
    /// Call sites that must have been executed, and other things that must have happened: see
    /// `states.rs`.
    pub(crate) sites: &'static [&'static str],
}

impl Model {
    /// What the exploration should have reached but has not.
    pub(crate) fn missed(&self, report: &Report) -> Vec<&'static str> {
        let events = self.events.iter().map(|event| event.name());
        let events = events.filter(|event| !report.events.contains_key(event));
        let executed = |site: &&str| {
            report.reached.contains(site)
                || report.sites.keys().any(|executed| executed.name == *site)
        };
        let sites = self.sites.iter().copied().filter(|site| !executed(site));
        events.chain(sites).collect()
    }
}

/// Makes a table of models, and a test of each: a name, what is explored, and the events and sites
/// that it must reach.
macro_rules! models {
    ($($name:ident: $run:expr, [$($event:ident),*], [$($site:expr),*];)*) => {
        pub(crate) const MODELS: &[$crate::support::models::Model] =
            &[$($crate::support::models::Model {
                name: stringify!($name),
                run: |depth| $run(depth),
                events: &[$(overlock::counters::Event::$event),*],
                sites: &[$($site),*],
            },)*];

        $(
            #[test]
            fn $name() {
                $crate::check(stringify!($name));
            }
        )*
    };
}
pub(crate) use models;

pub(crate) fn all() -> impl Iterator<Item = &'static Model> {
    let locks = [table::first::MODELS, table::MODELS, unsure::MODELS];
    let families = [refreshes::MODELS, shared::MODELS, condvars::MODELS];
    locks.into_iter().chain(families).flatten()
}

pub(crate) fn model(name: &str) -> &'static Model {
    all().find(|model| model.name == name).unwrap_or_else(|| panic!("no model {name}"))
}
