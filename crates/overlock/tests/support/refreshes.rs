//! The models of `Refresh`: what each call promises about the value it returns, in every
//! interleaving.
//!
//! Refreshes are numbered in the order of their computations, and the value of a refresh is its
//! number. Messages carry what a caller can know, which makes it part of the happens-before that
//! loom explores:
//!
//! * `known`: the newest value that any call has returned, so that refresh has ended. `join` and
//!   `fresh` return a newer value, and `last` returns none older.
//! * `begun`: the newest refresh that has begun. `fresh` returns a newer one.
//!
//! In addition, each model checks
//!
//! * that a value is whole: all its words come from one refresh;
//! * that computations exclude each other, and each sees what the one before it did: they use a
//!   cell in which loom finds races;
//! * that a caller that gets a value sees what its computation did: likewise, with a cell for each
//!   refresh;
//! * that there is no lost wake-up: all CPUs end, or loom reports a deadlock;
//! * that a computation that panics lets other CPUs continue;
//! * that `last` returns while the refresher is stopped in its computation: the refresher waits for
//!   that return.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use overlock::Refresh;
use overlock::platform::Platform;
use overlock::refresh::Value;

use super::cells::{Life, Part, Word};
use super::models::{Depth, Report, Scene, Steps, models, play};
use super::platform::worlds::{FUTEX, SPIN, SPURIOUS, STALE, TOKEN};
use super::platform::{self, ByAddress, Halting, Spinning, World};
use Call::{Fresh, Join, Last, Panics, Stops};

/// The number of a refresh, in each word of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) u32);

impl Value for Number {
    fn to_words(self) -> [u32; 4] {
        [self.0; 4]
    }

    fn from_words(words: [u32; 4]) -> Self {
        assert!(words.iter().all(|word| *word == words[0]), "a torn value: {words:?}");
        Self(words[0])
    }
}

/// A shared value under test.
pub(crate) trait Shared: 'static {
    fn new(cell: &dyn Fn() -> Word) -> Self;
    fn join(&self, compute: &dyn Fn() -> Number) -> Number;
    fn fresh(&self, compute: &dyn Fn() -> Number) -> Number;
    fn last(&self) -> Number;
}

impl<P: Platform<Word = Word>> Shared for Refresh<Number, P> {
    fn new(cell: &dyn Fn() -> Word) -> Self {
        Self::with(Number(0), cell)
    }
    fn join(&self, compute: &dyn Fn() -> Number) -> Number {
        self.join(compute)
    }
    fn fresh(&self, compute: &dyn Fn() -> Number) -> Number {
        self.fresh(compute)
    }
    fn last(&self) -> Number {
        self.last()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Join,
    Fresh,
    Last,
    /// A `join` whose computation panics.
    Panics,
    /// A `join` whose computation lasts until a `Last` has returned.
    Stops,
}

/// One more than the most refreshes of a model.
const NUMBERS: usize = 8;

struct Place<S> {
    shared: S,
    known: AtomicU32,
    begun: AtomicU32,
    /// Whether a `Last` has returned.
    read: AtomicBool,
    /// How many refreshes have begun. It belongs to the computation.
    count: UnsafeCell<u32>,
    /// One cell per number, written by the computation of that number.
    traces: [UnsafeCell<()>; NUMBERS],
}

/// The payload with which a computation panics.
struct NoClock;

impl<S: Shared> Place<S> {
    fn new() -> &'static Self {
        let life = platform::keep(Life::new(None));
        platform::keep(Self {
            shared: S::new(&|| Word::new(0, Part::Lock(life))),
            known: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            read: AtomicBool::new(false),
            count: UnsafeCell::new(0),
            traces: std::array::from_fn(|_| UnsafeCell::new(())),
        })
    }

    fn compute(&self) -> Number {
        let number = self.count.with_mut(|count| {
            // SAFETY: refreshes exclude each other; loom fails the model if they do not.
            let count = unsafe { &mut *count };
            *count += 1;
            *count
        });
        self.begun.fetch_max(number, Release);
        self.traces[number as usize].with_mut(|_| ());
        Number(number)
    }

    /// Makes one call, and checks what it returns.
    fn make(&self, call: Call) {
        let (known, begun) = (self.known.load(Acquire), self.begun.load(Acquire));
        let Number(value) = match call {
            Call::Join => self.shared.join(&|| self.compute()),
            Call::Fresh => self.shared.fresh(&|| self.compute()),
            Call::Last => self.shared.last(),
            Call::Panics => match self.panics() {
                Some(value) => value,
                None => return,
            },
            Call::Stops => self.shared.join(&|| {
                while !self.read.load(Acquire) {
                    loom::thread::yield_now();
                }
                self.compute()
            }),
        };
        self.traces[value as usize].with(|_| ());
        let least = match call {
            Call::Last => known,
            Call::Fresh => known.max(begun) + 1,
            Call::Join | Call::Panics | Call::Stops => known + 1,
        };
        assert!(
            value >= least,
            "stale: {call:?} returns {value}, but {known} was known and {begun} had begun"
        );
        self.known.fetch_max(value, AcqRel);
        if call == Call::Last {
            self.read.store(true, Release);
        }
    }

    /// A `join` whose computation panics, unless another CPU's is under way.
    fn panics(&self) -> Option<Number> {
        let call = || self.shared.join(&|| panic::resume_unwind(Box::new(NoClock)));
        match panic::catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => Some(value),
            Err(ours) if ours.is::<NoClock>() => None,
            Err(other) => panic::resume_unwind(other),
        }
    }
}

impl<S: Shared> Scene for Place<S> {
    type Step = Call;

    fn step(&'static self, call: Call) -> bool {
        self.make(call);
        true
    }
}

/// Each CPU makes its calls on one shared value.
pub(crate) fn calls<S: Shared>(
    world: World,
    preemptions: Option<usize>,
    calls: Steps<Call>,
) -> impl FnOnce(Depth) -> Report {
    play(world, preemptions, calls, Place::<S>::new)
}

fn on<P: Platform<Word = Word> + 'static>(
    world: World,
    preemptions: Option<usize>,
    all: Steps<Call>,
) -> impl FnOnce(Depth) -> Report {
    calls::<Refresh<Number, P>>(world, preemptions, all)
}

const FULL: World = World { full: true, ..FUTEX };
const NUMBERLESS: World = World { numberless: 1, ..FUTEX };
const WAITS: &str = "refresh.rs wait_for_end compare_exchange";
const KICKS: &str = "park.rs kick_halted compare_exchange";

models! {
    refresh_two: on::<Halting>(STALE, None, &[&[Join], &[Join]]), [], [WAITS, KICKS];
    refresh_token: on::<Halting>(TOKEN, None, &[&[Join], &[Join]]), [], [WAITS, KICKS];
    refresh_addr: on::<ByAddress>(STALE, None, &[&[Join], &[Join]]), [], [WAITS];
    refresh_spurious: on::<Halting>(SPURIOUS, None, &[&[Join], &[Join]]), [], [WAITS];
    refresh_spin: on::<Spinning>(SPIN, None, &[&[Join], &[Fresh]]), [], [];
    refresh_full: on::<Halting>(FULL, None, &[&[Join], &[Join]]), [], [WAITS];
    refresh_numberless: on::<Halting>(NUMBERLESS, None, &[&[Join], &[Join]]), [], [WAITS];
    refresh_fresh: on::<Halting>(STALE, None, &[&[Join], &[Fresh]]), [], [WAITS];
    refresh_again: on::<Halting>(STALE, Some(2), &[&[Join, Fresh], &[Join, Fresh]]), [], [WAITS];
    refresh_last: on::<Halting>(FUTEX, Some(2), &[&[Join, Join], &[Last]]), [], [];
    refresh_last_again: on::<Halting>(FUTEX, Some(3), &[&[Join], &[Last, Last]]), [], [];
    refresh_panics: on::<Halting>(FUTEX, Some(3), &[&[Panics, Last], &[Join]]), [], [WAITS];
    refresh_panics_addr: on::<ByAddress>(FUTEX, Some(3), &[&[Panics, Join], &[Fresh]]), [], [WAITS];
    refresh_stops: on::<Halting>(FUTEX, Some(2), &[&[Stops], &[Last], &[Join]]), [], [WAITS];
    refresh_three: on::<Halting>(FUTEX, Some(1), &[&[Join], &[Fresh], &[Join]]), [], [WAITS, KICKS];
    refresh_three_addr: on::<ByAddress>(FUTEX, Some(1), &[&[Join], &[Fresh], &[Last]]), [], [WAITS];
}
