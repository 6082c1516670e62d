//! Models of the releases for callers that may not hold the lock: in the place of the ordinary
//! ones, and by two CPUs at once.

use std::cell::Cell;

use overlock::platform::Platform;
use overlock::{Queued, RawLock, Ticket};

use super::cells::{Half, Life, Part, Word};
use super::locks::{Kind, Verbs, locks, nobody_passes, unwatched};
use super::models::{Depth, Report, Seen, explore, models};
use super::platform::worlds::{FUTEX, STALE};
use super::platform::{self, Halting};
use super::table::TWO;

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

impl<L: Doubtful> Verbs for Unsure<L> {}

/// Such a lock, which is free.
pub(crate) type Make<L> = fn(&'static Life) -> L;

pub(crate) const QUEUED: Make<Queued<Halting, Seen>> =
    // SAFETY: the cell holds zero.
    |life| unsafe { Queued::with(Word::new(0, Part::Lock(life))) };
pub(crate) const TICKET: Make<Ticket<Halting, Seen>> = |life| {
    let cell = || Half::new(0, Part::Lock(life));
    // SAFETY: the cells hold zero.
    unsafe { Ticket::with(cell(), cell()) }
};

/// CPUs 0 and 1 release one acquisition at the same time, while CPU 2 waits for the lock. It gets
/// the lock, and the lock is free afterwards.
pub(crate) fn twice<L: Doubtful>(
    make: Make<L>,
    release: fn(&L, L::Name) -> bool,
) -> impl FnOnce(Depth) -> Report {
    move |depth| {
        explore(Some(2), depth, move || {
            platform::open(FUTEX, 3);
            let lock = platform::keep(make(platform::keep(Life::new(None))));
            lock.lock();
            let name = lock.name();
            let released = platform::keep(Cell::new(0));
            platform::run(3, move |cpu| {
                if cpu == 2 {
                    lock.lock();
                    release(lock, lock.name());
                } else if release(lock, name) {
                    released.set(released.get() + 1);
                }
            });
            assert!(released.get() >= 1, "no CPU has released the lock");
            assert!(!lock.is_locked(), "the lock is stuck");
            platform::close();
        })
    }
}

const UNSURE_QUEUED: Kind =
    Kind { make: |life| Box::new(Unsure(QUEUED(life))), watch: nobody_passes };
const UNSURE_TICKET: Kind = Kind { make: |life| Box::new(Unsure(TICKET(life))), watch: unwatched };

models! {
    queued_unsure: locks(STALE, None, TWO, [UNSURE_QUEUED]), [PvWaitHead, PvKickUnlock],
        ["release.rs unlock_if_locked cas", "release.rs release update"];
    ticket_unsure: locks(STALE, None, TWO, [UNSURE_TICKET]), [PvWaitNode, PvKickUnlock],
        ["unsure.rs unlock_ticket compare_exchange"];
    queued_twice: twice(QUEUED, Doubtful::release), [PvWaitHead, PvKickUnlock],
        ["release.rs release update"];
    ticket_twice: twice(TICKET, Doubtful::release), [PvWaitNode, PvKickUnlock],
        ["unsure.rs unlock_ticket compare_exchange"];
}
