//! The run queue of one pCPU: the vCPUs that wait for it, with the one that lags most in front.
//!
//! It is a sorted vector whose capacity is reserved once, so that no operation allocates. With tens
//! of vCPUs in a queue, moving a few cache lines is cheaper than any tree.
//!
//! Invariants: Q1, entries are in ascending virtual time, and equal times keep their order of
//! arrival (so that they take turns); Q2, a vCPU is in at most one queue, at most once (kept by
//! [`Scheduler`](super::Scheduler)).

use alloc::vec::Vec;

use super::vcpu::VirtualTime;
use crate::host::Vcpu;

#[derive(Debug, Default)]
pub(super) struct RunQueue {
    entries: Vec<(VirtualTime, Vcpu)>,
}

impl RunQueue {
    /// Makes an empty queue that never allocates while it holds at most `capacity` vCPUs.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity) }
    }

    /// Inserts `vcpu` behind all that lag at least as much.
    pub(super) fn insert(&mut self, time: VirtualTime, vcpu: Vcpu) {
        let at = self.entries.partition_point(|&(queued, _)| queued <= time);
        self.entries.insert(at, (time, vcpu));
    }

    pub(super) fn remove(&mut self, time: VirtualTime, vcpu: Vcpu) {
        let from = self.entries.partition_point(|&(queued, _)| queued < time);
        if let Some(at) = self.entries[from..].iter().position(|&(_, queued)| queued == vcpu) {
            self.entries.remove(from + at);
        }
    }

    /// The vCPU that lags most, and its virtual time.
    pub(super) fn first(&self) -> Option<(VirtualTime, Vcpu)> {
        self.entries.first().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_lagging_comes_first_and_ties_go_round() {
        let mut queue = RunQueue::with_capacity(4);
        for (time, vcpu) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.insert(VirtualTime(time), Vcpu(vcpu));
        }
        let mut order = Vec::new();
        while let Some((time, vcpu)) = queue.first() {
            order.push(vcpu.0);
            queue.remove(time, vcpu);
        }
        assert_eq!(order, [1, 3, 0, 2]);
        assert_eq!(queue.len(), 0);
    }
}
