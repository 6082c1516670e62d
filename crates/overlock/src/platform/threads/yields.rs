// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yields, and what they tell about the other threads that want the processor.
//!
//! A thread that yields to one of its own program is soon back, because that one waits for
//! something before long, too. A stranger that computes keeps the processor for a slice, some
//! milliseconds, where a thread that halts would have been let in as soon as it was woken: it had
//! used less than its share.
//!
//! A real-time thread does not yield: to one of another priority it can't, and one with a deadline
//! (sched(7)) would lose the rest of its budget.
//!
//! Nothing tells beforehand who will run. So each yield is timed, and two long ones of this process
//! in a row, with no short one between, are taken as yields to strangers: beside two threads that
//! compute, on two processors, half of all yields are long, and where many own threads yield to
//! each other a few in a thousand. Then no thread of this process yields for a while, which is
//! proportional, so that yields to strangers take a small part of the time, however long slices
//! are.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::clock::now_ns;
use super::syscall::syscall;

/// A yield that takes longer is long, in nanoseconds: longer than most among own threads, shorter
/// than the slice of a scheduler.
const LONG_NS: u64 = 1_000_000;
/// For how many times as long as the second long yield no thread yields. Any value is correct.
const PAUSE: u64 = 16;

/// What this process has seen of its yields.
static YIELDS: Yields =
    Yields { was_long: AtomicBool::new(false), paused_until_ns: AtomicU64::new(0) };

struct Yields {
    /// Whether the last yield was long.
    was_long: AtomicBool,
    /// Until when no thread yields.
    paused_until_ns: AtomicU64,
}

/// Whether the calling thread is a real-time one.
fn is_realtime() -> bool {
    // SAFETY: no memory is passed.
    let policy = unsafe { syscall(libc::SYS_sched_getscheduler, [0; 6]) };
    let policy = policy as libc::c_int & !libc::SCHED_RESET_ON_FORK;
    [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)
}

/// Lets another thread have the processor, unless this is a real-time thread.
pub(super) fn yield_now() {
    if is_realtime() {
        return;
    }
    let since = now_ns();
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
    YIELDS.note(since, now_ns());
}

/// Whether yields have met strangers, not long ago.
pub(super) fn has_strangers() -> bool {
    let until = YIELDS.paused_until_ns.load(Relaxed);
    until != 0 && now_ns() < until
}

impl Yields {
    /// Takes note of a yield.
    fn note(&self, since: u64, now: u64) {
        let took = now.saturating_sub(since);
        let (is_long, was_long) = (took > LONG_NS, self.was_long.load(Relaxed));
        if is_long != was_long {
            self.was_long.store(is_long, Relaxed);
        } else if is_long {
            let until = now.saturating_add(took.saturating_mul(PAUSE));
            self.paused_until_ns.store(until, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_yields_in_a_row_are_followed_by_a_pause_and_by_a_longer_one_the_longer_they_were()
    {
        let yields =
            Yields { was_long: AtomicBool::new(false), paused_until_ns: AtomicU64::new(0) };
        let paused_after = |took: u64| {
            yields.note(1_000, 1_000 + took);
            yields.paused_until_ns.load(Relaxed)
        };
        let (short, long) = (LONG_NS, LONG_NS + 1);
        assert_eq!([short, long, short, long].map(paused_after), [0; 4]);
        assert_eq!(paused_after(long), 1_000 + long * (PAUSE + 1));
        assert_eq!(paused_after(4 * long), 1_000 + 4 * long * (PAUSE + 1));
        yields.note(2_000, 1_000);
        assert!(!yields.was_long.load(Relaxed));
        yields.note(0, u64::MAX);
        yields.note(0, u64::MAX);
        assert_eq!(yields.paused_until_ns.load(Relaxed), u64::MAX);
    }
}
