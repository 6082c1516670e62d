// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models with locks of several kinds, whose waiters share the nodes of their CPUs.
//!
//! ```text
//!  late_kick                                     interrupted_kick
//!
//!  CPU 0          CPU 1          CPU 2           CPU 0          CPU 1          CPU 2
//!  (has A, B)                                    (has A)                       (has B)
//!                 waits for A    waits for B                    waits for A
//!  releases A     gets A                         releases A     gets A
//!    :            waits for B                      :            waits for B
//!    kicks CPU 1                                   marks CPU 1, is interrupted,
//!  releases B                                      waits for B                 releases B
//! ```
//!
//! CPU 1's first halt ends spuriously, so CPU 1 may be gone when it is kicked.

use overlock::RawLock;
use overlock::counters::Event;

use super::cells::{Life, Watch};
use super::contexts::nested;
use super::models::{
    Depth, Report, Scene, explore, hybrid, nobody_passes, queued, test_and_set, unwatched, wide,
};
use super::platform::{self, Halt, Halting, World};
use super::states::{MEETS_ANOTHER_KIND, Numbers, TAKES_OVER};
use super::table::Model;

/// A lock of any kind.
pub(crate) struct Any(Box<dyn RawLock>);

// SAFETY: it passes every call on to a lock.
unsafe impl RawLock for Any {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// How to make a lock of some kind, and how to watch it.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    make: fn(&'static Life) -> Any,
    watch: fn() -> Option<Watch>,
}

pub(crate) const TEST_AND_SET: Kind =
    Kind { make: |life| Any(Box::new(test_and_set::<Halting>(life))), watch: unwatched };
pub(crate) const TICKET: Kind =
    Kind { make: |life| Any(Box::new(wide::<Halting>(life))), watch: unwatched };
pub(crate) const QUEUED: Kind =
    Kind { make: |life| Any(Box::new(queued::<Halting>(life))), watch: nobody_passes };
pub(crate) const HYBRID: Kind =
    Kind { make: |life| Any(Box::new(hybrid::<Halting>(life))), watch: nobody_passes };

impl Kind {
    /// A lock of this kind, which protects `sections` critical sections.
    pub(crate) fn scene(self, sections: usize) -> &'static Scene<Any> {
        Scene::new(sections, self.make, (self.watch)())
    }
}

/// One halt of each CPU ends spuriously, once others have had time to find its name.
const WORLD: World = World { spurious: 1, lingers: true, ..World::PLAIN };

/// CPU 0 has two locks, and CPU 1 waits for the first. CPU 0's kick may find CPU 1 waiting for the
/// second; with three CPUs, behind CPU 2.
pub(crate) fn late_kick(
    kinds: [Kind; 2],
    cpus: usize,
    numbers: Numbers,
    bound: usize,
    depth: Depth,
) -> Report {
    explore(Some(bound), depth, move || {
        platform::open(World { numbers, ..WORLD }, cpus);
        let [first, second] = [kinds[0].scene(2), kinds[1].scene(cpus)];
        first.lock.lock();
        second.lock.lock();
        platform::run(cpus, move |cpu| {
            if cpu == 0 {
                loom::thread::yield_now();
                first.section();
                return second.section();
            }
            if cpu == 1 {
                first.lock.lock();
                first.section();
            }
            second.lock.lock();
            second.section();
        });
        first.rest();
        second.rest();
        platform::close();
    })
}

/// CPU 0 releases a lock for which CPU 1 waits, and is interrupted before it kicks. The handler
/// waits for the lock that CPU 2 holds, perhaps behind CPU 1.
pub(crate) fn interrupted_kick(
    kinds: [Kind; 2],
    numbers: Numbers,
    bound: usize,
    depth: Depth,
) -> Report {
    explore(Some(bound), depth, move || {
        platform::open(World { interrupts: 1, numbers, ..WORLD }, 3);
        let [first, second] = [kinds[0].scene(2), kinds[1].scene(3)];
        first.lock.lock();
        second.lock.lock();
        let enter = move |_| {
            second.lock.lock();
            second.section();
        };
        platform::on_interrupt(platform::keep(enter));
        platform::run(3, move |cpu| match cpu {
            0 => {
                loom::thread::yield_now();
                first.section();
            }
            1 => {
                first.lock.lock();
                first.section();
                enter(0);
            }
            _ => {
                // By this time any kick is overdue.
                platform::pass(1_000_000_000);
                second.section();
            }
        });
        first.rest();
        second.rest();
        platform::close();
    })
}

/// CPU 1 holds the first lock and waits for the second. CPU 0 holds the second, and asks for the
/// first once it has released it.
fn inside(kinds: [Kind; 2], world: World, bound: usize, depth: Depth) -> Report {
    explore(Some(bound), depth, move || {
        platform::open(world, 2);
        let [first, second] = kinds.map(|kind| kind.scene(2));
        second.lock.lock();
        platform::run(2, move |cpu| {
            if cpu == 0 {
                second.section();
            }
            first.lock.lock();
            if cpu == 1 {
                second.lock.lock();
                second.section();
            }
            first.section();
        });
        first.rest();
        second.rest();
        platform::close();
    })
}

const RIGHT: Numbers = Numbers::Right;
const TOKEN: World = World { halt: Halt::Token, stale_failures: true, ..World::PLAIN };

macro_rules! models {
    ($($name:ident: |$depth:ident| $run:expr, [$($event:ident),*], [$($reached:expr),*];)*) => {
        /// All models with locks of several kinds, or with several locks whose kicks can meet.
        pub(crate) const MODELS: &[Model] = &[$(Model {
            name: stringify!($name),
            run: |$depth| $run,
            events: &[$(Event::$event),*],
            sites: &[$($reached),*],
        },)*];
    };
}

models! {
    mixed_ticket_queued: |depth| late_kick([TICKET, QUEUED], 3, RIGHT, 1, depth),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_ticket_hybrid: |depth| late_kick([TICKET, HYBRID], 3, RIGHT, 1, depth),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_ticket_tas: |depth| late_kick([TICKET, TEST_AND_SET], 2, RIGHT, 2, depth),
        [PvWaitNode, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_tas_queued: |depth| late_kick([TEST_AND_SET, QUEUED], 3, RIGHT, 1, depth),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_tas_ticket: |depth| late_kick([TEST_AND_SET, TICKET], 2, RIGHT, 2, depth),
        [PvWaitNode, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_queued_ticket: |depth| late_kick([QUEUED, TICKET], 2, RIGHT, 2, depth),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_hybrid_tas: |depth| late_kick([HYBRID, TEST_AND_SET], 3, RIGHT, 1, depth),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_interrupted_kick: |depth| interrupted_kick([HYBRID, QUEUED], RIGHT, 2, depth),
        [PvWaitHead, PvWaitNode, PvKickWake], [TAKES_OVER];
    queued_interrupted_kick: |depth| interrupted_kick([QUEUED, QUEUED], RIGHT, 2, depth),
        [PvWaitHead, PvWaitNode, PvKickWake], [TAKES_OVER];
    mixed_inside: |depth| inside([TICKET, QUEUED], World::PLAIN, 3, depth),
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    mixed_inside_token: |depth| inside([HYBRID, TICKET], TOKEN, 2, depth),
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    mixed_nested: |depth| nested([QUEUED, TICKET, HYBRID, TEST_AND_SET], World::PLAIN, 2, depth),
        [LockUseNode3, PvWaitNode, PvKickWake], ["park.rs kick_halted compare_exchange"];
    mixed_nested_token: |depth| nested([TEST_AND_SET, TICKET, QUEUED, HYBRID], TOKEN, 1, depth),
        [LockUseNode3, PvWaitNode, PvKickWake], ["park.rs kick_halted compare_exchange"];
}
