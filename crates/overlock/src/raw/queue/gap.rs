// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timing how soon a CPU that released a lock wants it again (`slot/gap.rs`).

use super::{Order, QueueLock, policy};
use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::word::queue::LockWord;
use crate::slot::Gap;
use crate::waiters::Key;

/// The gaps of this CPU, if it has a number.
pub(super) fn of_this_cpu<P: Platform>() -> Option<&'static Gap> {
    P::cpu().map(|cpu| P::slot(cpu).gap())
}

/// This CPU has released a lock whose gap is being timed.
pub(super) fn begin<P: Platform>(key: Key) {
    if let Some(gap) = of_this_cpu::<P>() {
        gap.begin(key.bits(), P::now_ns());
    }
}

/// Whether a CPU that has released a lock usually comes straight back, to judge by this CPU.
pub(super) fn comes_straight_back(gap: Option<&Gap>) -> bool {
    gap.is_none_or(|gap| policy::is_short(gap.mean_ns(policy::GAPS)))
}

impl<P: Platform, O: Order, C: Class> QueueLock<P, O, C> {
    /// This CPU wants the lock: the gap ends if it is being timed.
    pub(super) fn end_gap(&self) -> Option<&'static Gap> {
        let gap = of_this_cpu::<P>();
        if let Some(gap) = gap {
            gap.end(self.key().bits(), P::now_ns, policy::GAPS);
        }
        gap
    }

    /// The word with which a newcomer takes the lock, if it takes it in the state `new`: marked, if
    /// the gap after this acquisition is to be timed.
    pub(super) fn marked(new: LockWord, gap: Option<&Gap>) -> LockWord {
        let is_due = !new.has_queue() && gap.is_some_and(|gap| gap.is_due(policy::GAPS));
        if is_due { new.timed() } else { new }
    }
}
