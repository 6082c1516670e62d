//! The rounds of a barrier: see [`barrier`](super). What it stands on comes from `ground`, so
//! that loom's words and a model of the kernel can take its place (tests/preload/barrier.rs).

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::ground::{AtomicU32, AtomicU64, pause, sleep, wake_all, yield_once};

/// s: a thread of the round may sleep.
const SLEEPS: u64 = 1 << 31;
/// a: the threads that have arrived in the round.
const ARRIVED: u64 = SLEEPS - 1;

/// How often a thread yields before it sleeps, unless it has met strangers. Any value is correct:
/// fewer let threads sleep whose round is about to end, and more cost system calls.
const YIELDS: usize = 20;

/// r: the rounds that have ended.
fn round_of(state: u64) -> u32 {
    (state >> 32) as u32
}

/// The words of a barrier.
pub(super) struct Rounds<'a> {
    pub(super) state: &'a AtomicU64,
    pub(super) inside: &'a AtomicU32,
    pub(super) count: u32,
}

impl Rounds<'_> {
    /// Waits for the round to end, if the caller is not the last to arrive, and calls `waits`
    /// before; returns whether it was the last. The barrier may no longer exist afterwards.
    pub(super) fn wait(&self, waits: impl FnOnce()) -> bool {
        // B1: (a,s,r,i) -> (a,s,r,i+1). Relaxed: B2 releases it.
        self.inside.fetch_add(1, Relaxed);
        let before = self.arrive();
        let is_last = self.is_last(before);
        if !is_last {
            waits();
            self.wait_for_the_end(round_of(before));
        } else if before & SLEEPS != 0 {
            wake_all(self.state);
        }
        // B5: (a,s,r,i) -> (a,s,r,i-1).
        // ORDERING: Release → the Acquire in `destroy`, which may reuse the memory.
        self.inside.fetch_sub(1, Release);
        is_last
    }

    /// Whether the thread that finds this state is the last of the round to arrive.
    fn is_last(&self, before: u64) -> bool {
        before & ARRIVED == u64::from(self.count) - 1
    }

    /// B2: joins the round; returns the state before.
    fn arrive(&self) -> u64 {
        // Relaxed: only a guess.
        let mut seen = self.state.load(Relaxed);
        loop {
            let next_round = u64::from(round_of(seen).wrapping_add(1)) << 32;
            // (a,s,r,i) -> (0,0,r+1,i), or (a+1,s,r,i)
            let new = if self.is_last(seen) { next_round } else { seen + 1 };
            // ORDERING: Release → this Acquire of the last to arrive, and its Release → the Acquire
            // in `look`: each thread sees what all did before. The Release publishes B1, too.
            match self.state.compare_exchange(seen, new, AcqRel, Relaxed) {
                Ok(before) => return before,
                Err(now) => seen = now,
            }
        }
    }

    fn look(&self) -> u64 {
        // ORDERING: Acquire ← the Release of B2 by the last to arrive.
        self.state.load(Acquire)
    }

    fn wait_for_the_end(&self, round: u32) {
        for _ in 0..YIELDS {
            if round_of(self.look()) != round || !yield_once() {
                break;
            }
        }
        loop {
            let seen = self.look();
            if round_of(seen) != round {
                return;
            }
            // B3: (a,0,r,i) -> (a,1,r,i). Relaxed: it says nothing of other memory.
            let set = |seen| self.state.compare_exchange(seen, seen | SLEEPS, Relaxed, Relaxed);
            if seen & SLEEPS != 0 || set(seen).is_ok() {
                // B4.
                sleep(self.state, round);
            }
        }
    }

    /// Waits until the threads that were woken have left.
    pub(super) fn destroy(&self) {
        // ORDERING: Acquire ← the Release of B5: their accesses precede the reuse of the memory.
        while self.inside.load(Acquire) != 0 {
            pause();
        }
    }
}
