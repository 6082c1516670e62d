// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stopwatch of a CPU: the *gap* that it is timing, which is how long it stays away between its
//! release of a lock and its next attempt to take the same lock; when gaps and transfers are due to
//! be timed; and when the CPU last yielded.
//!
//! The gap decides who should have a lock next. If it is shorter than a hand-over, the last holder
//! is back before another CPU could use the lock, and one CPU saturates it. Otherwise the lock
//! stands free meanwhile, and whoever waits should take it at once.
//!
//! An uncontended pair of operations can't be timed: it takes less than reading the clock does. So
//! a newcomer that has taken a lock without a queue now and then marks the word as *timed*
//! (`raw/word/queue.rs`). The mark forces releases and acquisitions onto their slow paths until the
//! CPU is back:
//!
//! ```text
//!   takes the lock, marks it     releases it      wants it again
//!                                begin -----------> end
//! ```
//!
//! Other CPUs that take the lock in between leave the mark where it is. If the next acquisition
//! wiped it, the CPU could come back on its fast path, again and again, and the gap would last
//! until it next found the lock held. (It did so once. Critical sections of a few ns with pauses
//! of 40 ns then seemed to have gaps of 0.8 to 2.7 µs on a machine with transfers of 170 ns, so
//! that waiters looked all the time, and had half of the throughput.) A waiter that joins the
//! queue does wipe it, and so does the 16th acquisition by others. Such a gap may seem longer
//! than it was.
//!
//! Like traces, these are plain atomics, because they take no part in any lock's protocol: any
//! value of them is a correct one. Only the slot's own CPU uses them. The medians are the lock's
//! (`waiters/timings.rs`).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// See the [module documentation](self). All zero at first; a thread inherits the stopwatch of the
/// last one that had its number.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// The lock whose gap is being timed, or zero. The lowest bit is always set.
    lock: AtomicU32,
    /// When that lock was released: the low half of [`Platform::now_ns`](crate::Platform::now_ns).
    since: AtomicU32,
    /// How often this CPU, as a newcomer, was about to take a lock whose gap could be timed.
    turns: AtomicU32,
    /// When the CPU last yielded as a newcomer, in the format of `since`.
    yielded: AtomicU32,
    /// How often this CPU waited as a newcomer, except for waits in which a look was due and none
    /// was timed.
    waits: AtomicU32,
}

/// Whether the `count`-th occasion is one of those at which to time: the first, and then about one
/// in `one_in`, at irregular intervals, so that of a few locks that a CPU takes in turns none is
/// left out.
const fn is_due(count: u32, one_in: u32) -> bool {
    // Multiples of the golden ratio, modulo one, are spread evenly.
    count.wrapping_mul(0x9e37_79b9) <= u32::MAX / one_in
}

impl Stopwatch {
    pub(crate) const fn new() -> Self {
        Self {
            lock: AtomicU32::new(0),
            since: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            yielded: AtomicU32::new(0),
            waits: AtomicU32::new(0),
        }
    }

    /// Whether the gap after this acquisition, or this attempt, is to be timed. (A gap is lost if
    /// that of another lock begins before it ends.)
    pub(crate) fn is_gap_due(&self, one_in: u32) -> bool {
        let turns = self.turns.load(Relaxed);
        self.turns.store(turns.wrapping_add(1), Relaxed);
        is_due(turns, one_in)
    }

    /// Whether a look is to be timed in this wait. It stays due until one
    /// [is](Self::has_timed_look).
    pub(crate) fn is_look_due(&self, one_in: u32) -> bool {
        let waits = self.waits.load(Relaxed);
        let due = is_due(waits, one_in);
        if !due {
            self.waits.store(waits.wrapping_add(1), Relaxed);
        }
        due
    }

    /// A look has been timed.
    pub(crate) fn has_timed_look(&self) {
        self.waits.store(self.waits.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The CPU has released `lock`, which was marked.
    pub(crate) fn begin_gap(&self, lock: u32, now_ns: u64) {
        self.since.store(now_ns as u32, Relaxed);
        self.lock.store(lock | 1, Relaxed);
    }

    /// The CPU wants `lock`. Ends the gap, and returns its length in nanoseconds (it wraps after
    /// four seconds), or `None` if no gap of this lock is being timed.
    pub(crate) fn end_gap(&self, lock: u32, now_ns: impl FnOnce() -> u64) -> Option<u32> {
        if self.lock.load(Relaxed) != lock | 1 {
            return None;
        }
        self.lock.store(0, Relaxed);
        Some((now_ns() as u32).wrapping_sub(self.since.load(Relaxed)))
    }

    /// The CPU yields.
    pub(crate) fn yields(&self, now_ns: u64) {
        self.yielded.store(now_ns as u32, Relaxed);
    }

    /// How long ago the CPU last yielded, in nanoseconds. (Wraps after four seconds.)
    pub(crate) fn yielded_for_ns(&self, now_ns: u64) -> u64 {
        u64::from((now_ns as u32).wrapping_sub(self.yielded.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lock_that_is_timed_ends_a_gap_and_only_once() {
        let watch = Stopwatch::new();
        let began = u64::from(u32::MAX) - 10;
        watch.begin_gap(7, began);
        assert_eq!(watch.end_gap(9, || panic!("another lock")), None);
        assert_eq!(watch.end_gap(7, || began + 400), Some(400), "the clock's low half wraps");
        assert_eq!(watch.end_gap(7, || panic!("it has ended")), None);
    }

    #[test]
    fn of_several_locks_taken_in_turns_some_gaps_of_each_are_timed() {
        for locks in 1..=13 {
            let watch = Stopwatch::new();
            let mut timed = [0; 13];
            for turn in 0..1_000 * locks {
                let lock = 2 * (turn % locks);
                timed[(turn % locks) as usize] += u32::from(watch.end_gap(lock, || 0).is_some());
                if watch.is_gap_due(8) {
                    watch.begin_gap(lock, 0);
                }
                assert!(turn > 0 || watch.end_gap(lock, || 0).is_some(), "the first is timed");
            }
            assert!(timed[..locks as usize].iter().all(|&gaps| gaps > 0), "{locks}: {timed:?}");
        }
    }

    #[test]
    fn a_look_is_due_until_one_is_timed_and_then_in_one_wait_of_so_many_at_each_lock() {
        for locks in 1..=8 {
            let watch = Stopwatch::new();
            assert!(watch.is_look_due(8) && watch.is_look_due(8));
            let mut timed = [0; 8];
            for wait in 0..1_600 * locks {
                if watch.is_look_due(8) {
                    watch.has_timed_look();
                    timed[wait % locks] += 1;
                }
            }
            let (all, least) = (timed.iter().sum::<usize>(), timed[..locks].iter().min().unwrap());
            assert!(all.abs_diff(200 * locks) <= 2 * locks, "{locks}: {timed:?}");
            assert!(*least >= 100, "{locks}: {timed:?}");
        }
    }

    #[test]
    fn the_time_since_a_yield_survives_a_wrap_of_the_clock() {
        let watch = Stopwatch::new();
        watch.yields(u64::from(u32::MAX));
        assert_eq!(watch.yielded_for_ns(u64::from(u32::MAX) + 50), 50);
    }
}
