// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one vCPU counts of itself while it runs a workload.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Histogram;
use crate::guest::world::{Vcpu, World};

/// The counts of one vCPU. Only that vCPU writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    /// Operations done.
    pub(crate) operations: AtomicU64,
    /// Waits for locks, in nanoseconds.
    pub(crate) waits: Histogram,
    /// The longest of them, exactly.
    pub(crate) longest_ns: AtomicU64,
    /// When the wait that is going on began; 0 is none. A vCPU that starves has no other trace.
    pub(crate) waiting_since: AtomicU64,
    /// Nanoseconds on a processor while waiting for a lock.
    pub(crate) spun_ns: AtomicU64,
    /// Nanoseconds from asking for the PM timer to having its answer.
    pub(crate) timer_ns: AtomicU64,
    /// Reads of the PM timer that were behind an earlier one of this vCPU by less than half its
    /// range.
    pub(crate) timer_backwards: AtomicU64,
}

impl Tally {
    /// Has `wait` wait for a lock or the like, notes how many nanoseconds that took, and says so.
    pub(super) fn wait<W: World>(&self, vcpu: Vcpu<W>, wait: impl FnOnce()) -> u64 {
        let (start, away) = (vcpu.now_ns(), vcpu.away_ns());
        self.waiting_since.store(start, Relaxed);
        wait();
        let (wait, away) = (vcpu.now_ns() - start, vcpu.away_ns() - away);
        self.waiting_since.store(0, Relaxed);
        self.waits.record(wait);
        add(&self.spun_ns, wait.saturating_sub(away));
        if wait > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(wait, Relaxed);
        }
        wait
    }

    /// The longest wait, one that is going on at `now_ns` included.
    pub(crate) fn longest_stall_ns(&self, now_ns: u64) -> u64 {
        let since = self.waiting_since.load(Relaxed);
        let going_on = if since == 0 { 0 } else { now_ns.saturating_sub(since) };
        self.longest_ns.load(Relaxed).max(going_on)
    }
}

/// Adds to a counter that nobody else writes.
pub(super) fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed) + value, Relaxed);
}
