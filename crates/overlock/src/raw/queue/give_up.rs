//! Giving up a wait from outside: a signal handler has interrupted it and never returns to it.
//!
//! The handler runs on the waiter's own CPU, so the waiter stands still at some instruction between
//! joining the queue and leaving it. What it would do at a deadline is then possible: every step of
//! [`Place::come_back`] has the same effect if it is repeated, and none is left out.

use core::sync::atomic::Ordering::Relaxed;

use super::enqueue::Place;
use super::order::Order;
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::entered::Entered;
use crate::platform::Platform;
use crate::raw::word::queue::rmw;
use crate::slot::{Care, NodeId, NodeState, step};

/// Removes all waiters from a lock word: only `LOCKED` stays as it was.
///
/// # Safety
/// `word` is the word of a live lock of this platform, and no other CPU uses it at the same time.
unsafe fn mend<P: Platform>(word: *const ()) {
    // SAFETY: the caller guarantees that the word is alive.
    let word = unsafe { &*word.cast::<P::Word>() };
    word.fetch_and(rmw::NO_WAITERS, Relaxed);
}

impl<P: Platform, O: Order, C: Class> Place<'_, P, O, C> {
    pub(super) const CARE: &'static Care = &Care { mend: mend::<P>, give_up: Self::give_wait_up };

    /// See [`GiveUp`](crate::slot::Care).
    ///
    /// # Safety
    /// `word` is the word of a live lock. The waiter is one of this CPU, and never goes on.
    unsafe fn give_wait_up(word: *const (), id: NodeId, got_to: u32) -> bool {
        // SAFETY: the caller guarantees that the word is alive.
        let word = unsafe { &*word.cast::<P::Word>() };
        if got_to == step::QUEUED {
            Place::<P, O, C>::again(word, id).give_place_up();
            return true;
        }
        // It may have been about to take its place back.
        let has_left = has_given_up(id.node::<P>().state.load(Relaxed));
        if has_left {
            Entered::<P>::again(id).leave_given_up();
        }
        has_left
    }
}

impl<'a, P: Platform, O: Order, C: Class> Place<'a, P, O, C> {
    /// The place of this CPU's node, which is in the queue.
    fn again(word: &'a P::Word, id: NodeId) -> Self {
        Self { has_slept: true, ..Self::new(word, Entered::again(id)) }
    }

    /// Leaves the queue, as the head or behind others.
    fn give_place_up(self) {
        let node_state = &self.node().state;
        loop {
            let seen = node_state.load(Relaxed);
            match seen {
                NodeState::WAITING | NodeState::HALTED_BEHIND => {
                    if self.mark_given_up(seen) {
                        return self.entered.leave_given_up();
                    }
                }
                gone if has_given_up(gone) => return self.entered.leave_given_up(),
                _ => break,
            }
        }
        self.come_back();
        self.give_up();
    }
}

/// Whether a waiter in this state has given up, so that nothing is left to do.
fn has_given_up(seen: NodeState) -> bool {
    seen.is_given_up() || seen == NodeState::SKIPPED || seen == NodeState::RELEASED
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use super::*;
    use crate::counters::Event;
    use crate::one_cpu::one_cpu;
    use crate::raw::queue::QueueLock;
    use crate::raw::queue::enqueue::Enqueued;
    use crate::raw::queue::order::Unfair;
    use crate::raw::word::queue::LockWord;

    one_cpu!(Alone, NOW_NS, || {});
    crate::lock_class!(Left);

    static HELD: QueueLock<Alone, Unfair> = QueueLock::new();

    #[test]
    fn a_head_that_is_given_up_awake_has_not_been_kicked() {
        HELD.word.store(LockWord::HELD.bits(), Relaxed);
        let Enqueued::Head(head) = Place::<Alone, Unfair, Left>::enqueue(&HELD.word, false) else {
            panic!("the queue was empty");
        };
        head.give_place_up();
        let count = |event| Left::counters().get(event);
        assert_eq!(count(Event::LockTimeout), 1);
        assert_eq!(count(Event::PvKickWake) + count(Event::PvSpuriousWakeup), 0);
        assert!(!HELD.look().has_queue());
    }
}
