// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeps that the preloaded library does not tell of: in futexes that a program waits for itself,
//! as the locks of Rust's standard library do.
//!
//! A few looks tell how much of the threads' time that is. A look at a thread can be judged when
//! all that threads have told until then has had its turn.

use crate::calls::{self, Call};
use crate::platform;
use std::collections::{HashMap, VecDeque};

/// The time between two looks in the mean, if they cost little.
const EVERY_NS: u64 = 20_000_000;
/// Looks may take this part of one processor: one of so many.
const SHARE: u64 = 50;
/// Fewer looks at threads say little.
const ENOUGH: u64 = 20;

#[derive(Debug, Default)]
pub(crate) struct Unseen {
    next: u64,
    /// Threads that slept in a futex at some time between these two.
    asleep: VecDeque<(u64, u64, u32)>,
    /// Whether each thread waits, as it has told, and since when.
    waits: HashMap<u32, (bool, u64)>,
    looks: u64,
    sleeps: u64,
}

impl Unseen {
    /// Looks at all threads if it is time to. Returns those that sleep in another call, or in none,
    /// and when they were seen.
    pub(super) fn look(&mut self, threads: &HashMap<u32, u32>) -> Vec<(u64, u32, Call)> {
        let (start, mut others) = (platform::now_ns(), Vec::new());
        if start < self.next {
            return others;
        }
        for (thread, process) in threads {
            let before = platform::now_ns();
            self.looks += 1;
            match calls::call(*process, *thread) {
                Call::Futex => self.asleep.push_back((before, platform::now_ns(), *thread)),
                Call::Unknown => {}
                other => others.push((before, *thread, other)),
            }
        }
        let took = platform::now_ns() - start;
        self.next = start + uneven(EVERY_NS.max(took * SHARE), start);
        self.waits.retain(|thread, _| threads.contains_key(thread));
        others
    }

    /// A thread has told that it begins to wait, or does not wait any more.
    pub(super) fn told(&mut self, at: u64, thread: u32, waits: bool) {
        self.waits.insert(thread, (waits, at));
    }

    /// Judges the looks before `until`: all that was told until then is known.
    pub(super) fn judge(&mut self, until: u64) {
        while let Some((from, _, thread)) = self.asleep.pop_front_if(|(_, to, _)| *to < until) {
            let is_told =
                self.waits.get(&thread).is_some_and(|(waits, since)| *waits || *since >= from);
            self.sleeps += u64::from(!is_told);
        }
    }

    /// Returns the part of the threads' time that such sleeps took.
    pub(crate) fn share(&self) -> f64 {
        if self.looks < ENOUGH { 0.0 } else { self.sleeps as f64 / self.looks as f64 }
    }
}

/// Returns a time between a half of this one and three halves, which no program keeps step with: a
/// look in each of its rounds would see the same part of all.
fn uneven(ns: u64, seed: u64) -> u64 {
    // By a multiple of the golden ratio (D. Knuth, "The Art of Computer Programming", volume 3,
    // section 6.4).
    let part = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    ns / 2 + ns / 1024 * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_keep_step_with_no_program() {
        for round in [EVERY_NS, EVERY_NS / 2, 2 * EVERY_NS] {
            let (mut at, mut early) = (12_345, 0);
            for _ in 0..100 {
                let ns = uneven(EVERY_NS, at);
                assert!((EVERY_NS / 2..=EVERY_NS / 2 * 3).contains(&ns));
                at += ns;
                early += u32::from(at % round < round / 2);
            }
            assert!((25..75).contains(&early), "{early} of 100 in the first half of {round} ns");
        }
    }

    #[test]
    fn a_sleep_is_unseen_if_no_wait_was_told_meanwhile() {
        let sleeps = |told: &[(u64, bool)]| {
            let mut unseen =
                Unseen { asleep: VecDeque::from([(100, 110, 1)]), ..Unseen::default() };
            for (at, waits) in told {
                unseen.judge(*at);
                unseen.told(*at, 1, *waits);
            }
            unseen.judge(u64::MAX);
            unseen.sleeps
        };
        assert_eq!(sleeps(&[]), 1);
        assert_eq!(sleeps(&[(50, true), (60, false), (120, true), (130, false)]), 1);
        assert_eq!(sleeps(&[(50, true), (120, false)]), 0);
        // It began, or ended, while it was looked at.
        assert_eq!(sleeps(&[(105, true), (120, false)]), 0);
        assert_eq!(sleeps(&[(50, true), (105, false)]), 0);
    }
}
