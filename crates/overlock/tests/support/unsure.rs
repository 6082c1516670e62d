// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the releases for callers that may not hold the lock: in the place of the ordinary
//! ones, and by two CPUs at once.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use overlock::atomic::Atomic;
use overlock::platform::Platform;
use overlock::{Queued, RawLock, Ticket};

use super::cells::{Half, Life, Part, Word};
use super::locks::{Kind, Verbs, locks, nobody_passes, unwatched};
use super::models::{Depth, Report, Seen, explore, models};
use super::platform::worlds::{FUTEX, STALE};
use super::platform::{self, Halting};
use super::table::{TWICE, TWO};

/// A lock with such a release.
pub(crate) trait Doubtful: RawLock + 'static {
    /// Releases the lock if it is held. Returns whether it was.
    fn release(&self) -> bool;
}

impl<P: Platform<Word = Word> + 'static> Doubtful for Queued<P, Seen> {
    fn release(&self) -> bool {
        // SAFETY: the models protect nothing by a lock that is released twice.
        unsafe { self.unlock_if_locked() }
    }
}

/// A ticket lock, and a word by which one CPU, of those that release an acquisition, does it.
pub(crate) struct Recorded(Ticket<Halting, Seen>, Word);

// SAFETY: that of the lock inside.
unsafe impl RawLock for Recorded {
    fn lock(&self) {
        self.0.lock();
        self.1.store(1, Relaxed);
    }

    fn try_lock(&self) -> bool {
        unreachable!("no model of this lock tries")
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's; where two CPUs release one acquisition, the model is about that.
        unsafe {
            if !self.0.hand_back() {
                self.0.unlock();
            }
        }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl Doubtful for Recorded {
    fn release(&self) -> bool {
        let has_record = self.1.compare_exchange(1, 0, Relaxed, Relaxed).is_ok();
        if has_record {
            // SAFETY: one CPU has the record.
            unsafe { self.unlock() };
        }
        has_record
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
        assert!(self.0.release(), "the lock is held");
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
pub(crate) const TICKET: Make<Recorded> = |life| {
    let cell = || Half::new(0, Part::Lock(life));
    // SAFETY: the cells hold zero.
    Recorded(unsafe { Ticket::with(cell(), cell()) }, Word::new(0, Part::Lock(life)))
};

/// CPUs 0 and 1 release one acquisition at the same time, while CPU 2 waits for the lock. It gets
/// the lock, and the lock is free afterwards.
pub(crate) fn twice<L: Doubtful>(
    make: Make<L>,
    release: fn(&L) -> bool,
) -> impl FnOnce(Depth) -> Report {
    move |depth| {
        explore(Some(2), depth, move || {
            platform::open(FUTEX, 3);
            let lock = platform::keep(make(platform::keep(Life::new(None))));
            lock.lock();
            let released = platform::keep(Cell::new(0));
            platform::run(3, move |cpu| {
                if cpu == 2 {
                    lock.lock();
                    release(lock);
                } else if release(lock) {
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
    ticket_unsure: locks(STALE, Some(3), TWICE, [UNSURE_TICKET]), [PvWaitNode, PvKickUnlock],
        ["back.rs draw_back compare_exchange", "back.rs exchange fetch_add"];
    queued_twice: twice(QUEUED, Doubtful::release), [PvWaitHead, PvKickUnlock],
        ["release.rs release update"];
    ticket_twice: twice(TICKET, Doubtful::release), [PvWaitNode, PvKickUnlock],
        ["back.rs draw_back compare_exchange"];
}
