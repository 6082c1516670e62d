//! The search for starved threads, which leave no sample of their own.
//!
//! A worker that stamped every wait would measure its stamps. So each worker only keeps a word, on
//! its own cache line, which shows how often it has been let in and whether it waits now. The
//! coordinator reads all words every [`GRAIN`](overlock_results::stats::GRAIN), and sleeps in between. A thread that it finds in
//! the same wait at two readings has waited all the time between them.
//!
//! It can't see waits shorter than the grain (the samples cover those), nor which part of a grain a
//! wait took at its two ends. The estimate is the time from the first reading that saw the wait to
//! the last, plus one grain for the two ends together: off by up to a grain, and right on average.

/// A worker's word: how often it has been let in, whether it waits to write, and whether it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress(pub(crate) u64);

impl Progress {
    /// Makes the word of a thread that asks for its entry `entered + 1`.
    #[inline]
    pub(crate) const fn waiting(entered: u64, writes: bool) -> Self {
        Progress(entered << 2 | (writes as u64) << 1 | 1)
    }

    /// Makes the word of a thread that has been let in `entered` times and doesn't wait.
    #[inline]
    pub(crate) const fn running(entered: u64) -> Self {
        Progress(entered << 2)
    }

    pub(crate) const fn entered(self) -> u64 {
        self.0 >> 2
    }

    /// Whether it waits to write, where others read.
    const fn writes(self) -> bool {
        self.0 & 2 != 0
    }

    pub(crate) const fn is_waiting(self) -> bool {
        self.0 & 1 == 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    last: Progress,
    /// The time at which its present wait was first seen.
    since: u64,
    /// Whether this wait has been counted as long.
    is_counted: bool,
}

#[derive(Debug)]
pub(crate) struct Watch {
    threads: Vec<Option<Seen>>,
    grain: u64,
    /// A wait of this length is long.
    long: u64,
    pub(crate) longest: u64,
    pub(crate) longest_write: u64,
    pub(crate) long_stalls: u64,
}

impl Watch {
    pub(crate) fn new(threads: usize, grain: u64, long: u64) -> Self {
        Watch {
            threads: vec![None; threads],
            grain,
            long,
            longest: 0,
            longest_write: 0,
            long_stalls: 0,
        }
    }

    pub(crate) fn look(&mut self, thread: usize, word: Progress, now: u64) {
        match &mut self.threads[thread] {
            Some(seen) if seen.last == word && word.is_waiting() => {
                let stall = now.saturating_sub(seen.since) + self.grain;
                self.longest = self.longest.max(stall);
                if word.writes() {
                    self.longest_write = self.longest_write.max(stall);
                }
                if stall > self.long && !seen.is_counted {
                    seen.is_counted = true;
                    self.long_stalls += 1;
                }
            }
            seen => *seen = Some(Seen { last: word, since: now, is_counted: false }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starved_thread_is_seen_though_it_never_gets_in() {
        let mut watch = Watch::new(2, 10, 50);
        for now in (0..200).step_by(10) {
            watch.look(0, Progress::waiting(7, false), now);
            watch.look(1, Progress::waiting(now, false), now);
        }
        assert_eq!((watch.longest, watch.longest_write, watch.long_stalls), (200, 0, 1));
        (0..100).step_by(10).for_each(|now| watch.look(1, Progress::waiting(7, true), now));
        assert_eq!((watch.longest, watch.longest_write), (200, 100));
    }

    #[test]
    fn a_long_pause_or_section_is_no_stall() {
        let mut watch = Watch::new(1, 10, 50);
        (0..200).step_by(10).for_each(|now| watch.look(0, Progress::running(7), now));
        assert_eq!((watch.longest, watch.long_stalls), (0, 0));
    }

    #[test]
    fn each_wait_counts_from_its_own_begin() {
        let mut watch = Watch::new(1, 10, 50);
        for now in (0..600).step_by(10) {
            watch.look(0, Progress::waiting(now / 100, false), now);
        }
        assert_eq!((watch.longest, watch.long_stalls), (100, 6));
    }

    /// The estimate is right on average whenever a wait begins, and off by less than a grain.
    #[test]
    fn the_estimate_has_no_bias() {
        const GRAIN: u64 = 100;
        let length = 550;
        let estimates: Vec<u64> = (0..GRAIN)
            .map(|begin| {
                let mut watch = Watch::new(1, GRAIN, u64::MAX);
                for now in (0..2_000).step_by(GRAIN as usize) {
                    let waits = (begin + 300..begin + 300 + length).contains(&now);
                    let word =
                        if waits { Progress::waiting(1, false) } else { Progress::running(1) };
                    watch.look(0, word, now);
                }
                watch.longest
            })
            .collect();
        assert!(estimates.iter().all(|estimate| estimate.abs_diff(length) <= GRAIN));
        let mean = estimates.iter().sum::<u64>() as f64 / GRAIN as f64;
        assert!((mean - length as f64).abs() < 2.0, "{mean}");
    }
}
