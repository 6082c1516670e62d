//! Models of locks: what CPUs do with them, and what must hold in every interleaving.
//!
//! Each model checks all of these at once:
//!
//! * mutual exclusion and the order of critical sections: the protected data is a cell in which
//!   loom finds races;
//! * no lost wake-up: all CPUs end, or loom reports a deadlock;
//! * no access after the release (F4): the last CPU to leave frees the lock, see [`Life`];
//! * for the locks with a queue: no CPU passes a waiter that has disabled stealing, see
//!   [`nobody_passes`].

use std::panic::{self, AssertUnwindSafe};

use loom::cell::UnsafeCell;
use overlock::platform::Platform;
use overlock::raw::{Narrow, Wide};
use overlock::{Hybrid, Queued, RawFairLock, RawLock, RawTimedLock, TestAndSet, Ticket};

use super::cells::{Byte, Half, Life, Part, Watch, Word};
use super::models::{Depth, Report, Scene, Seen, Steps, play};
use super::platform::{self, World};
use super::sites;

/// What a CPU does with the locks of a model, which have numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Lock(usize),
    /// Has its critical section and releases the lock. If more steps leave a lock than take it, it
    /// is held from the start.
    Leave(usize),
    /// Both.
    Enter(usize),
    /// Waits for lock 0 until this time. If it gets the lock, it leaves it, and makes no more
    /// steps.
    Until(u64),
    /// Lets others run.
    Yield,
    /// Its clock advances.
    Pass(u64),
}
use Step::{Enter, Leave, Lock, Pass, Until, Yield};

pub(crate) trait Verbs: RawLock {
    fn until(&self, _deadline_ns: u64) -> bool {
        unreachable!("no model of this lock has a deadline")
    }
}

/// How to make a lock of some kind, and how to watch it.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) make: fn(&'static Life) -> Box<dyn Verbs>,
    pub(crate) watch: fn() -> Option<Watch>,
}

pub(crate) struct Place {
    pub(crate) lock: Box<dyn Verbs>,
    life: &'static Life,
    /// How many critical sections are still to come.
    left: UnsafeCell<usize>,
}

impl Place {
    fn new(kind: Kind, sections: usize) -> Self {
        let life = platform::keep(Life::new((kind.watch)()));
        Self { lock: (kind.make)(life), life, left: UnsafeCell::new(sections) }
    }

    /// The critical section of a CPU that holds the lock, and its release. The last CPU frees the
    /// lock.
    fn leave(&self) {
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

impl Scene for Vec<Place> {
    type Step = Step;

    fn step(&'static self, step: Step) -> bool {
        match step {
            Lock(lock) => self[lock].lock.lock(),
            Leave(lock) => self[lock].leave(),
            Enter(lock) => {
                self[lock].lock.lock();
                self[lock].leave();
            }
            Until(deadline_ns) => {
                let got = self[0].lock.until(deadline_ns);
                if got {
                    self[0].leave();
                }
                return !got;
            }
            Yield => loom::thread::yield_now(),
            Pass(ns) => platform::pass(ns),
        }
        true
    }

    fn rest(&self) {
        // No CPU has left bits behind in a lock's word.
        self.iter().for_each(|place| place.life.rest());
    }
}

/// CPUs make their steps with locks of these kinds. An interrupt within so many others enters the
/// lock of that number.
pub(crate) fn locks(
    world: World,
    preemptions: Option<usize>,
    steps: Steps<Step>,
    kinds: impl AsRef<[Kind]> + Send + Sync + 'static,
) -> impl FnOnce(Depth) -> Report {
    let all = || steps.iter().copied().flatten();
    let locks = 0..kinds.as_ref().len();
    let sections = locks.clone().map(|lock| {
        let leaves = |step: &&Step| matches!(step, Leave(it) | Enter(it) if *it == lock);
        let alone = |steps: &&&[Step]| lock == 0 && matches!(steps, [Until(_)]);
        let interrupts = usize::from((1..=world.interrupts).contains(&lock));
        interrupts + all().filter(leaves).count() + steps.iter().filter(alone).count()
    });
    let is_held = locks.map(|lock| {
        let takes = all().filter(|step| matches!(step, Lock(it) if *it == lock)).count();
        all().filter(|step| matches!(step, Leave(it) if *it == lock)).count() > takes
    });
    let parts: Vec<(usize, bool)> = sections.zip(is_held).collect();
    play(world, preemptions, steps, move || {
        let make = |(&kind, &(sections, _)): (&Kind, _)| Place::new(kind, sections);
        let scene: Vec<Place> = kinds.as_ref().iter().zip(&parts).map(make).collect();
        let scene = platform::keep(scene);
        for (place, _) in scene.iter().zip(&parts).filter(|(_, (_, is_held))| *is_held) {
            if !place.lock.is_locked() {
                place.lock.lock();
            }
        }
        platform::on_interrupt(platform::keep(|level| assert!(scene.step(Enter(level)))));
        scene
    })
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
    pub(super) const PARKED: u32 = 1 << 16;
    pub(super) const TAIL: u32 = 0xfffe_0000;
    pub(super) const SEEN: u32 = 2 << 17;
}

/// A newcomer halted without `membarrier`, because a release has seen its note.
pub(crate) const RELIES_ON_A_NOTE: &str = "a newcomer relies on a note";

/// Checks that only the queue head takes the lock while stealing is disabled, or once the head has
/// been passed as often as is allowed: the CPU that takes the lock then leaves the queue. The one
/// exception is the first to pass after a cheap release that missed the queue. No CPU reduces the
/// count but a head that leaves the queue.
pub(crate) fn nobody_passes() -> Option<Watch> {
    use bits::{LOCKED, NO_STEALING, PARKED, SEEN, STEAL, STEALS, TAIL};
    let judge = Box::new(move |cpu: usize, old: u32, new: u32| {
        if old & TAIL == SEEN && new & !old & PARKED != 0 {
            sites::reach(RELIES_ON_A_NOTE);
        }
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

macro_rules! timed {
    ($($lock:ident)*) => {$(
        impl<P: Platform<Word = Word> + 'static> Verbs for $lock<P, Seen> {
            fn until(&self, deadline_ns: u64) -> bool {
                self.try_lock_until(deadline_ns)
            }
        }
    )*};
}

timed! { TestAndSet Queued Hybrid }

impl<P: Platform<Word = Word> + 'static> Verbs for Fairly<P> {
    fn until(&self, deadline_ns: u64) -> bool {
        self.0.try_lock_until(deadline_ns)
    }
}

/// A lock of which every release hands over.
struct Fairly<P: Platform>(Hybrid<P, Seen>);

impl<P: Platform> Fairly<P> {
    /// # Safety
    /// As of the lock inside.
    unsafe fn with(word: P::Word) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { Hybrid::with(word) })
    }
}

// SAFETY: that of the lock inside, of which a fair release is a release.
unsafe impl<P: Platform> RawLock for Fairly<P> {
    fn lock(&self) {
        self.0.lock();
    }
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }
    unsafe fn unlock(&self) {
        // SAFETY: the caller's.
        unsafe { self.0.unlock_fair() };
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl<P: Platform<Half = Half> + 'static> Verbs for Ticket<P, Seen, Wide> {}
impl<P: Platform<Byte = Byte> + 'static> Verbs for Ticket<P, Seen, Narrow> {}

/// Defines kinds of locks: by what, and with what in each of their cells.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $lock:ty, $watch:ident,
        $of:ident = $cell:ident, $($value:expr),*;)*) => {$(
        $(#[$doc])*
        pub(crate) const fn $name<P: Platform<$of = $cell> + 'static>() -> Kind {
            let make = |life| -> Box<dyn Verbs> {
                // SAFETY: cells with zero are a free lock; see `hybrid_near_bound` for its own.
                Box::new(unsafe { <$lock>::with($($cell::new($value, Part::Lock(life))),*) })
            };
            Kind { make, watch: $watch }
        }
    )*};
}

kinds! {
    tas: TestAndSet<P, Seen>, unwatched, Word = Word, 0;
    wide: Ticket<P, Seen, Wide>, unwatched, Half = Half, 0, 0;
    narrow: Ticket<P, Seen, Narrow>, unwatched, Byte = Byte, 0, 0;
    queued: Queued<P, Seen>, nobody_passes, Word = Word, 0;
    /// For models in which no waiter gives up.
    strict: Queued<P, Seen>, in_strict_order, Word = Word, 0;
    hybrid: Hybrid<P, Seen>, nobody_passes, Word = Word, 0;
    fairly: Fairly<P>, nobody_passes, Word = Word, 0;
    /// For models in which reservations end.
    hybrid_passed: Hybrid<P, Seen>, unwatched, Word = Word, 0;
    /// A lock whose queue head may be passed once more. It looks as if a CPU had stolen it from a
    /// queue that it has just emptied, which can't happen, but is allowed for here. The word has no
    /// tail, so it names no waiter that does not exist. `LOCKED` stands for the model, which
    /// releases the lock.
    hybrid_near_bound: Hybrid<P, Seen>, nobody_passes, Word = Word,
        bits::LOCKED | (bits::STEALS - bits::STEAL);
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
