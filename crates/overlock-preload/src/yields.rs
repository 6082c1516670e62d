//! Yields, and what they tell about the other threads that want the processor.
//!
//! A thread that yields to one of its own program is soon back, because that one waits for
//! something before long, too. A stranger that computes keeps the processor for a slice, some
//! milliseconds, where a thread that sleeps would have been let in as soon as it was woken. A
//! real-time thread does not yield: to one of another priority it can't, and one with a deadline
//! (sched(7)) would lose the rest of its budget.
//!
//! Nothing tells beforehand who will run. So each yield is timed, and two long ones of this process
//! in a row, with no short one between, are taken as yields to strangers: beside two threads that
//! compute, on two processors, half of all yields are long, and where many own threads yield to
//! each other a few in a thousand. Then no thread of this process yields for a while, which is
//! proportional, so that yields to strangers take a small part of the time.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use overlock::platform::syscall::syscall;
use overlock::platform::{Platform as _, Threads};

use crate::gate;

/// A yield that takes longer is long, in nanoseconds: longer than most among own threads, shorter
/// than the slice of a scheduler.
const LONG_NS: u64 = 1_000_000;
/// For how many times as long as the second long yield no thread yields. Any value is correct.
const PAUSE: u64 = 16;

/// Whether the last yield of this process was long.
static WAS_LONG: AtomicBool = AtomicBool::new(false);
/// Until when no thread yields.
static PAUSED_UNTIL_NS: AtomicU64 = AtomicU64::new(0);

/// Lets another thread have the processor, unless this is a real-time thread or yields have met
/// strangers, not long ago. Returns whether it did.
pub(crate) fn yield_once() -> bool {
    let since = Threads::now_ns();
    if since < PAUSED_UNTIL_NS.load(Relaxed) || gate::is_realtime() {
        return false;
    }
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
    let now = Threads::now_ns();
    let took = now.saturating_sub(since);
    if took <= LONG_NS {
        WAS_LONG.store(false, Relaxed);
    } else if WAS_LONG.swap(true, Relaxed) {
        PAUSED_UNTIL_NS.store(now.saturating_add(took.saturating_mul(PAUSE)), Relaxed);
    }
    true
}
