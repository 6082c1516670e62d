// SPDX-License-Identifier: MIT OR Apache-2.0
//! The coming events and their times: a heap.
//!
//! Equal times are resolved by the order in which the events were added: the seed alone determines
//! a run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens without a vCPU's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A vCPU continues, unless its plans have changed since.
    Resume { vcpu: u32, stamp: u32 },
    /// The owner's slice may be over.
    Slice { pcpu: u32 },
    /// The owner is out of the guest, as requested.
    Evicted { vcpu: u32, pcpu: u32 },
    /// An interrupt reaches a vCPU.
    Interrupt { vcpu: u32 },
    /// A halted vCPU is woken, if it is still in that halt.
    Deadline { vcpu: u32, halt: u64 },
    /// Other load on the host takes a pCPU for a while.
    Background { pcpu: u32 },
    /// All running vCPUs are sampled.
    Sample,
    /// The programs are told to return.
    Stop,
    /// The programs have not returned in time.
    GiveUp,
}

/// Events in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    added: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// When the first event is due.
    pub(crate) fn first(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, ..))| *at)
    }

    /// How many events have been added so far.
    pub(crate) const fn added(&self) -> u64 {
        self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_equals_in_the_order_of_their_adding() {
        let mut events = Events::default();
        for (at, pcpu) in [(5, 9), (3, 1), (5, 2), (3, 0)] {
            events.add(at, Event::Slice { pcpu });
        }
        assert_eq!((events.first(), events.added()), (3, 4));
        let mut order = Vec::new();
        while let Some((_, Event::Slice { pcpu })) = events.pop() {
            order.push(pcpu);
        }
        assert_eq!(order, [1, 0, 9, 2]);
    }
}
