// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the releases for callers that may not hold the lock: in the place of the ordinary
//! ones, and by two CPUs at once.

use std::cell::Cell;

use overlock::counters::Event;
use overlock::platform::Platform;
use overlock::{Queued, RawLock, Ticket};

use super::cells::{Half, Life, Word};
use super::models::{Depth, Plan, Report, Scene, Seen, explore, lock, nobody_passes, queued};
use super::models::{sections, unwatched, wide};
use super::platform::{self, Halting, World};
use super::table::Model;

/// A lock with such a release.
pub(crate) trait Doubtful: RawLock + 'static {
    /// What names an acquisition: the ticket, or nothing.
    type Name: Copy + 'static;
    /// The name of the acquisition of the CPU that holds the lock.
    fn name(&self) -> Self::Name;
    /// Releases the lock if it is held, by that acquisition. Returns whether it was.
    fn release(&self, name: Self::Name) -> bool;
}

impl<P: Platform<Word = Word> + 'static> Doubtful for Queued<P, Seen> {
    type Name = ();
    fn name(&self) {}
    fn release(&self, _name: ()) -> bool {
        // SAFETY: the models protect nothing by a lock that is released twice.
        unsafe { self.unlock_if_locked() }
    }
}

impl<P: Platform<Half = Half> + 'static> Doubtful for Ticket<P, Seen> {
    type Name = u32;
    fn name(&self) -> u32 {
        self.served()
    }
    fn release(&self, ticket: u32) -> bool {
        // SAFETY: the ticket has been served to a CPU that held the lock.
        unsafe { self.unlock_ticket(ticket) }
    }
}

/// A lock whose only release is that one.
struct Unsure<L>(L);

// SAFETY: that of the lock inside; the release succeeds for a CPU that holds the lock.
unsafe impl<L: Doubtful> RawLock for Unsure<L> {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        assert!(self.0.release(self.0.name()), "the lock is held");
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// CPUs 0 and 1 release one acquisition at the same time, while CPU 2 waits for the lock. It gets
/// the lock, and the lock is free afterwards.
pub(crate) fn twice<L: Doubtful>(
    make: fn(&'static Life) -> L,
    release: fn(&L, L::Name) -> bool,
    depth: Depth,
) -> Report {
    explore(Some(2), depth, move || {
        platform::open(World::PLAIN, 3);
        let scene = Scene::new(0, make, unwatched());
        scene.lock.lock();
        let name = scene.lock.name();
        let released = platform::keep(Cell::new(0));
        platform::run(3, move |cpu| {
            if cpu == 2 {
                scene.lock.lock();
                release(&scene.lock, scene.lock.name());
            } else if release(&scene.lock, name) {
                released.set(released.get() + 1);
            }
        });
        assert!(released.get() >= 1, "no CPU has released the lock");
        assert!(!scene.lock.is_locked(), "the lock is stuck");
        platform::close();
    })
}

const PLAN: Plan = Plan {
    preemptions: None,
    world: World { stale_failures: true, ..World::PLAIN },
    ..Plan::PLAIN
};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "queued_unsure",
        run: |depth| {
            let make = |life| Unsure(queued::<Halting>(life));
            sections(PLAN, depth, make, lock, nobody_passes)
        },
        events: &[Event::PvWaitHead, Event::PvKickUnlock],
        sites: &["release.rs unlock_if_locked cas", "release.rs release update"],
    },
    Model {
        name: "ticket_unsure",
        run: |depth| {
            let make = |life| Unsure(wide::<Halting>(life));
            sections(PLAN, depth, make, lock, unwatched)
        },
        events: &[Event::PvWaitNode, Event::PvKickUnlock],
        sites: &["unsure.rs unlock_ticket compare_exchange"],
    },
    Model {
        name: "queued_twice",
        run: |depth| twice(queued::<Halting>, Doubtful::release, depth),
        events: &[Event::PvWaitHead, Event::PvKickUnlock],
        sites: &["release.rs release update"],
    },
    Model {
        name: "ticket_twice",
        run: |depth| twice(wide::<Halting>, Doubtful::release, depth),
        events: &[Event::PvWaitNode, Event::PvKickUnlock],
        sites: &["unsure.rs unlock_ticket compare_exchange"],
    },
];
