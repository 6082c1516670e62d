//! Leaving the queue without the lock, and promoting the successor to queue head.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::QueueLock;
use super::enqueue::{GONE, Place};
use super::kick::stamp;
use super::order::Order;
use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::raw::word::queue::{LockWord, update};
use crate::slot::{NodeId, NodeState, step};
use crate::waiters;

impl<P: Platform, O: Order, C: Class> Place<'_, P, O, C> {
    /// Leaves the queue without the lock.
    pub(super) fn give_up(mut self) {
        C::count(Event::LockTimeout);
        self.entered.has_got_to(step::MOVING);
        if O::UNFAIR {
            // Newcomers that have halted rely on the queue (`newcomer.rs`).
            let _ = self.is_kick_certain();
        }
        let id = self.entered.id();
        let leaves = |seen: LockWord| Some(seen.without_head(id, Self::STRICT));
        // ORDERING: Acquire, Q-O7. No CPU learns anything from a waiter that leaves.
        let Ok((_, now)) = update(self.word, Acquire, leaves) else { return };
        if !now.is_locked() && now.has_parked() {
            // Nothing else would wake it: the lock was free, reserved for this waiter.
            QueueLock::<P, O, C>::wake_parked(self.word);
        }
        if now.has_queue() {
            self.hand_on(false);
        }
    }

    /// Makes the successor the queue head. It stays asleep if `holder` says that a release will
    /// follow, which kicks it: a thread that is woken earlier may take the holder's processor.
    pub(super) fn hand_on(self, holder: bool) {
        // ORDERING: Release, Q-O2. The successor's node is known by Q-O7.
        let Some(mut next) = NodeId::decode(self.node().next.swap(GONE, Release)) else {
            // The successor will find out, and release the node (Q4).
            return self.entered.leave_behind();
        };
        loop {
            let state = &next.node::<P>().state;
            let seen = state.load(Relaxed);
            let is_done = match seen {
                NodeState::HALTED_BEHIND if holder => self.promote_asleep(next),
                gone if gone.is_given_up() => {
                    if state.compare_exchange(gone, NodeState::SKIPPED, Relaxed).is_err() {
                        // Its CPU has just taken the place back.
                        continue;
                    }
                    let Some(after) = self.skip(next) else { return };
                    next = after;
                    false
                }
                _ => self.promote_awake(next, seen),
            };
            if is_done {
                return;
            }
        }
    }

    /// `WAITING`, `HALTED_BEHIND` -> `HEAD`
    fn promote_awake(&self, next: NodeId, seen: NodeState) -> bool {
        let node = next.node::<P>();
        node.since.store(stamp::<P>(), Relaxed);
        if node.state.compare_exchange(seen, NodeState::HEAD, Relaxed).is_err() {
            return false;
        }
        if seen == NodeState::HALTED_BEHIND {
            C::count(Event::PvKickUnlock);
            node.state.kick::<P>(next.cpu());
        }
        true
    }

    /// `HALTED_BEHIND` -> `HEAD_HALTED`: the release will kick the successor. Until then it can be
    /// passed.
    fn promote_asleep(&self, next: NodeId) -> bool {
        let node = next.node::<P>();
        if !waiters::insert::<P>(self.key, next) {
            C::count(Event::PvHashFull);
            return self.promote_awake(next, NodeState::HALTED_BEHIND);
        }
        node.since.store(stamp::<P>(), Relaxed);
        // A release that sees the bit finds the entry, because the lock orders the two.
        let _ = update(self.word, Relaxed, |seen| Some(seen.head_halted(false)));
        // ORDERING: Release, Q-O5.
        let asleep =
            node.state.compare_exchange(NodeState::HALTED_BEHIND, NodeState::HEAD_HALTED, Release);
        if asleep.is_ok() {
            return true;
        }
        // The successor has given up, and may have come again. The entry is still this CPU's.
        waiters::remove::<P>(self.key, next);
        let _ = update(self.word, Relaxed, |seen| Some(seen.without_halted(Self::STRICT)));
        false
    }

    /// Removes a waiter that gave up from the queue. Returns the node behind it, if that node is
    /// linked.
    fn skip(&self, gone: NodeId) -> Option<NodeId> {
        let node = gone.node::<P>();
        // If no node is behind this one, none can get there after the change. (gone,..) -> (0,..)
        let is_last = |seen: LockWord| seen.ends_with(gone).then(|| seen.without_head(gone, false));
        if update(self.word, Relaxed, is_last).is_ok() {
            node.release();
            return None;
        }
        // ORDERING: AcqRel, Q-O2.
        let after = NodeId::decode(node.next.swap(GONE, AcqRel));
        if after.is_some() {
            node.release();
        }
        after
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use core::sync::atomic::{AtomicU16, AtomicU32};

    use super::*;
    use crate::one_cpu::one_cpu;
    use crate::platform::CheapRelease;
    use crate::raw::queue::enqueue::Enqueued;
    use crate::raw::queue::order::Unfair;
    use crate::raw::word::queue::rmw;

    one_cpu!(Alone, NOW_NS, || {}, UnderWay);
    crate::lock_class!(Left);

    static HELD: QueueLock<Alone, Unfair, Left> = QueueLock::new();

    /// A release that began before there was a queue, and ends when it is cut off.
    struct UnderWay;

    // SAFETY: no operation stores by itself, and none is under way after `membarrier`.
    unsafe impl CheapRelease<AtomicU32, AtomicU16> for UnderWay {
        const EXISTS: bool = true;

        fn membarrier() -> bool {
            HELD.word.fetch_sub(rmw::RELEASE, Relaxed);
            true
        }
    }

    #[test]
    fn a_head_that_gives_up_looks_after_those_that_rely_on_its_queue() {
        HELD.word.store(LockWord::HELD.bits(), Relaxed);
        let Enqueued::Head(head) = Place::<Alone, Unfair, Left>::enqueue(&HELD.word, false) else {
            panic!("the queue was empty");
        };
        let _ = update(&HELD.word, Relaxed, |seen| Some(seen.parked()));
        assert!(!head.lock_as_head(Some(0)));
        assert!(!HELD.look().is_locked());
        assert_eq!(Left::counters().get(Event::PvKickUnlock), 1);
    }
}
