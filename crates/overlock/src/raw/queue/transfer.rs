// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timing what it costs to load a lock word that another CPU has written (`waiters/timings.rs`).
//!
//! The same two virtual CPUs exchanged a cache line in 55 ns in some seconds and in 250 ns in
//! others, presumably because the hypervisor had moved them (AMD EPYC, Zen 4). So no constant can
//! say whether a holder is back before another CPU could have used the lock.

use super::policy;
use crate::platform::Platform;
use crate::raw::word::queue::LockWord;
use crate::slot::Stopwatch;
use crate::waiters::Timings;

/// The looks of a newcomer at the word in one wait. In some waits, one of them is timed.
pub(super) struct Looks<'a> {
    /// This CPU's, if a look is still to be timed.
    watch: Option<&'a Stopwatch>,
    /// The word at the last look, if this CPU has not accessed it since.
    last: Option<LockWord>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(watch: Option<&'a Stopwatch>) -> Self {
        let watch = watch.filter(|watch| watch.is_look_due(policy::SAMPLES));
        Self { watch, last: None }
    }

    /// Has a `look` at the word. If the word is no longer what it was, another CPU has written it,
    /// and the look had to fetch its cache line. (Unless the two share a cache, or a thread that
    /// ran here during a yield has fetched it.)
    #[inline(always)]
    pub(super) fn look<P: Platform>(
        &mut self,
        timings: &Timings,
        look: impl FnOnce() -> LockWord,
    ) -> LockWord {
        let Some(watch) = self.watch else { return look() };
        let Some(last) = self.last else { return *self.last.insert(look()) };
        let before_ns = P::now_ns();
        let seen = look();
        self.last = Some(seen);
        if seen != last {
            timings.note_transfer(passed_ns(before_ns, P::now_ns()));
            watch.has_timed_look();
            self.watch = None;
        }
        seen
    }

    /// This CPU has written the word, or tried to, and so has its cache line.
    pub(super) fn begin_again(&mut self) {
        self.last = None;
    }
}

/// What passed between two readings of the clock.
pub(super) fn passed_ns(before_ns: u64, after_ns: u64) -> u32 {
    u32::try_from(after_ns.saturating_sub(before_ns)).unwrap_or(u32::MAX)
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::raw::queue::one_cpu::one_cpu;

    one_cpu!(Looking, LOOKING_NS, None::<fn()>);

    #[test]
    fn a_look_that_finds_the_word_changed_is_timed_in_one_wait_of_several() {
        let (watch, timings) = (Stopwatch::new(), Timings::new());
        let free = LockWord::new(0);
        let held = free.taken_by_newcomer().unwrap();
        let waits = |seen: &[LockWord], takes_ns| {
            let mut looks = Looks::new(Some(&watch));
            for &word in seen {
                let seen = looks.look::<Looking>(&timings, || {
                    LOOKING_NS.fetch_add(takes_ns, Relaxed);
                    word
                });
                assert_eq!(seen, word);
            }
            timings.transfer_ns()
        };
        let none = timings.transfer_ns();
        assert_eq!(waits(&[held, held, held], 40), none, "no CPU has written the word");
        assert_eq!(waits(&[free], 40), none, "the first look of a wait is not timed");
        let mut looks = Looks::new(Some(&watch));
        looks.look::<Looking>(&timings, || free);
        looks.begin_again();
        looks.look::<Looking>(&timings, || held);
        assert_eq!(timings.transfer_ns(), none, "this CPU has written the word");
        assert_eq!(waits(&[held, held, free], 40), 40);
        let timed = |_: &u32| {
            let before = timings.transfer_ns();
            waits(&[held, free, held], 900) > before
        };
        assert_eq!((0..10 * policy::SAMPLES).filter(timed).count().abs_diff(10), 0);
    }
}
