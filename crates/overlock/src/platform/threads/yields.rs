// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yields, and what they tell about the other threads that want the processor.
//!
//! A thread that yields to one of its own program is soon back, because that one waits for
//! something before long, too. A stranger that computes keeps the processor for a slice, some
//! milliseconds, where a thread that halts would have been let in as soon as it was woken: it had
//! used less than its share.
//!
//! Nothing tells beforehand who will run. So each yield is timed, and after a long one no thread of
//! this process yields for a while, which is proportional: yields to strangers take no more than a
//! small part of the time, however long slices are.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::clock::now_ns;
use super::syscall::syscall;

/// A yield that takes longer was one to a stranger: more than own threads take between two waits,
/// less than a slice of any scheduler.
const LONG_NS: u64 = 500_000;
/// For how many times as long no thread yields then. Any value is correct.
const PAUSE: u64 = 16;

/// Until when no thread yields.
static PAUSED_UNTIL_NS: AtomicU64 = AtomicU64::new(0);

/// Lets another thread have the processor.
pub(super) fn yield_now() {
    let since = now_ns();
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
    let now = now_ns();
    if let Some(until) = paused_until(since, now) {
        PAUSED_UNTIL_NS.store(until, Relaxed);
    }
}

/// Whether a yield has met a stranger, not long ago.
pub(super) fn has_strangers() -> bool {
    let until = PAUSED_UNTIL_NS.load(Relaxed);
    until != 0 && now_ns() < until
}

/// Until when no thread yields after a yield that took from `since` to `now`, if it was long.
fn paused_until(since: u64, now: u64) -> Option<u64> {
    let took = now.saturating_sub(since);
    (took > LONG_NS).then(|| now.saturating_add(took.saturating_mul(PAUSE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_yield_is_followed_by_a_pause_and_by_one_that_is_longer_the_longer_it_was() {
        assert_eq!(paused_until(1_000, 1_000 + LONG_NS), None);
        assert_eq!(paused_until(2_000, 1_000), None);
        let pause = |took| paused_until(1_000, 1_000 + took).map(|until| until - 1_000 - took);
        assert_eq!(pause(1_000_000), Some(PAUSE * 1_000_000));
        assert_eq!(pause(4_000_000), Some(PAUSE * 4_000_000));
        assert_eq!(paused_until(0, u64::MAX), Some(u64::MAX));
    }
}
