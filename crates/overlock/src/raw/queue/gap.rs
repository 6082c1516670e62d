// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timing how soon a CPU that released a lock wants it again (`slot/stopwatch.rs`).

use super::policy;
use super::transfer::passed_ns;
use crate::platform::Platform;
use crate::raw::word::queue::LockWord;
use crate::slot::Stopwatch;
use crate::waiters::{self, Key};

/// The stopwatch of this CPU, if the CPU has a number.
pub(super) fn of_this_cpu<P: Platform>() -> Option<&'static Stopwatch> {
    P::cpu().map(|cpu| P::slot(cpu).stopwatch())
}

/// This CPU has released a lock whose gap is being timed.
pub(super) fn begin<P: Platform>(key: Key) {
    if let Some(watch) = of_this_cpu::<P>() {
        watch.begin_gap(key.bits(), P::now_ns());
    }
}

/// What this CPU knows of gaps when it wants a lock.
pub(super) struct Gap {
    /// The same as [`of_this_cpu`].
    pub(super) watch: Option<&'static Stopwatch>,
    /// Whether a gap of this CPU has just ended.
    has_ended: bool,
}

/// This CPU wants a lock: the gap ends if it is being timed, and counts for the lock's median. The
/// reading of the clock that it contains does not count.
pub(super) fn end<P: Platform>(key: Key) -> Gap {
    let watch = of_this_cpu::<P>();
    let gap_ns = watch.and_then(|watch| watch.end_gap(key.bits(), P::now_ns));
    if let Some(gap_ns) = gap_ns {
        let reading_ns = passed_ns(P::now_ns(), P::now_ns());
        waiters::timings::<P>(key).note_gap(gap_ns.saturating_sub(reading_ns));
    }
    Gap { watch, has_ended: gap_ns.is_some() }
}

impl Gap {
    /// The word with which this CPU takes the lock as a newcomer, if it may. The mark of a gap goes
    /// if one of this CPU's has ended. (Rarely, that mark is another CPU's: if a queue wiped this
    /// CPU's own. Then the other's gap may seem longer than it was.)
    pub(super) fn taken(&self, seen: LockWord) -> Option<LockWord> {
        if self.has_ended { seen.taken_by_newcomer() } else { seen.taken_in_gap() }
    }

    /// The word with which this CPU takes the lock, if it takes it in the state `new`: marked, if
    /// the gap after this acquisition is to be timed.
    pub(super) fn marked(&self, new: LockWord) -> LockWord {
        let is_due =
            new.can_be_timed() && self.watch.is_some_and(|watch| watch.is_gap_due(policy::SAMPLES));
        if is_due { new.timed() } else { new }
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::RawLock;
    use crate::raw::queue::QueueLock;
    use crate::raw::queue::one_cpu::one_cpu;
    use crate::raw::queue::order::Unfair;

    one_cpu!(Alone, ALONE_NS, None::<fn()>);
    one_cpu!(Reading, READING_NS, None::<fn()>; 100);

    static LOCK: QueueLock<Alone, Unfair> = QueueLock::new();

    fn median_ns() -> u32 {
        waiters::timings::<Alone>(LOCK.key()).gap_ns()
    }

    /// Takes the free lock as a newcomer, and releases it after 5 us.
    fn has_a_section() {
        assert!(LOCK.spin_as_newcomer(None));
        ALONE_NS.fetch_add(5_000, Relaxed);
        // SAFETY: held.
        unsafe { LOCK.unlock() };
    }

    /// Has critical sections until the gap after one of them is being timed.
    fn has_timed_section() {
        let is_timed = (0..2 * policy::SAMPLES).any(|_| {
            has_a_section();
            LOCK.look().is_timed()
        });
        assert!(is_timed);
    }

    /// In place of another CPU.
    fn another_has_a_section() {
        let taken = LOCK.look().taken_in_gap().unwrap();
        LOCK.word.store(taken.released(false).bits(), Relaxed);
    }

    #[test]
    fn a_gap_does_not_contain_the_reading_of_the_clock_that_ends_it() {
        static READS: QueueLock<Reading, Unfair> = QueueLock::new();
        for _ in 0..2 {
            assert!(READS.spin_as_newcomer(None));
            // SAFETY: held.
            unsafe { READS.unlock() };
            READING_NS.fetch_add(400, Relaxed);
        }
        assert_eq!(waiters::timings::<Reading>(READS.key()).gap_ns(), 400);
    }

    #[test]
    fn the_gap_is_timed_until_the_same_cpu_wants_the_lock_again() {
        has_timed_section();
        ALONE_NS.fetch_add(400, Relaxed);
        LOCK.lock();
        assert!(!LOCK.look().is_timed());
        assert_eq!(median_ns(), 400, "the critical section does not count");
        // SAFETY: held.
        unsafe { LOCK.unlock() };

        has_timed_section();
        another_has_a_section();
        let others = LOCK.look().taken_in_gap().unwrap();
        LOCK.word.store(others.bits(), Relaxed);
        ALONE_NS.fetch_add(300, Relaxed);
        assert!(!LOCK.spin_as_newcomer(None));
        assert_eq!(median_ns(), 374, "one step");
        LOCK.word.store(0, Relaxed);

        // Others have the lock twice, but are not there when this CPU is back.
        has_timed_section();
        another_has_a_section();
        another_has_a_section();
        ALONE_NS.fetch_add(300, Relaxed);
        assert!(LOCK.look().is_timed());
        LOCK.lock();
        assert!(!LOCK.look().is_timed());
        assert_eq!(median_ns(), 350, "a second step");
        // SAFETY: held.
        unsafe { LOCK.unlock() };

        // The release of another CPU begins no gap.
        has_timed_section();
        ALONE_NS.fetch_add(200, Relaxed);
        LOCK.word.store(LOCK.look().taken_in_gap().unwrap().bits(), Relaxed);
        // SAFETY: in place of the other CPU.
        unsafe { LOCK.unlock() };
        ALONE_NS.fetch_add(150, Relaxed);
        LOCK.lock();
        assert_eq!(median_ns(), 350, "as long as the median, not 150");
        // SAFETY: held.
        unsafe { LOCK.unlock() };

        has_timed_section();
        ALONE_NS.fetch_add(500, Relaxed);
        let before_ns = median_ns();
        assert!(LOCK.try_lock());
        assert!(!LOCK.look().is_timed() && (before_ns + 1..500).contains(&median_ns()));
        // SAFETY: held.
        unsafe { LOCK.unlock() };
        assert!(!LOCK.look().is_locked());
    }

    #[test]
    fn only_the_cpu_whose_gap_has_ended_takes_the_mark_away() {
        let free = LockWord::new(0).taken_by_newcomer().unwrap().timed().released(false);
        let [mine, others] = [true, false].map(|has_ended| Gap { watch: None, has_ended });
        assert!(!mine.taken(free).unwrap().is_timed());
        assert!(others.taken(free).unwrap().is_timed());
        assert_eq!(others.taken(others.taken(free).unwrap()), None, "held");
        static FRESH: Stopwatch = Stopwatch::new();
        let mine = Gap { watch: Some(&FRESH), has_ended: true };
        let due = mine.marked(mine.taken(free).unwrap());
        assert!(due.is_timed() && due.steals() == 0, "the first of a stopwatch is due");
    }
}
