//! Sleeps that the preloaded library does not tell of: in system calls, and in futexes that a
//! program waits for itself, as the locks of Rust's standard library do.
//!
//! A few looks tell what for and where. Each stands for the sleeps since the one before it.

use crate::analysis::What;
use crate::names::Kind;
use crate::sources::calls;
use crate::sources::platform;
use crate::sources::tracer::{Found, Tracer};

/// The time between two looks in the mean, if they cost little.
const EVERY_NS: u64 = 5_000_000;
/// The part of one processor that looks may take: one in this number.
const SHARE: u64 = 50;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    next: u64,
    last: u64,
    /// How long the last look took.
    took: u64,
}

impl Unseen {
    /// Looks at all threads if it is time to; returns those that sleep, and what for.
    pub(super) fn look(&mut self, tracer: &mut Tracer) -> Vec<Found> {
        let (start, mut found, mut in_line) = (platform::now_ns(), Vec::new(), Vec::new());
        if start < self.next {
            return found;
        }
        let every = if self.last == 0 { EVERY_NS } else { start - self.last };
        let threads: Vec<(u32, u32)> =
            tracer.threads.iter().map(|(thread, process)| (*process, *thread)).collect();
        for (process, thread) in threads {
            let at = platform::now_ns();
            if let Ok(Some(call)) = calls::read(process, thread) {
                // One that waits has told where. What it does now, events will tell later.
                if call.is_futex_wait() && tracer.analysis.waits(thread) {
                    continue;
                }
                let site = call.site(tracer, (process, thread));
                if call.is_futex_wait() {
                    tracer.expects(site, 0, call.arguments[2]);
                }
                let reason = call.reason(tracer, process);
                if tracer.kernel.why(reason).0 == Kind::FileLock {
                    in_line.push((process, thread));
                }
                found.push((at, thread, What::Sleeps(reason, site, every)));
            }
        }
        if !in_line.is_empty() {
            let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
            for (process, thread) in in_line {
                let holder = blocker(&locks, process).filter(|of| tracer.blocks(*of, thread));
                found.extend(holder.map(|of| (platform::now_ns(), thread, What::SleepsFor(of))));
            }
        }
        let took = platform::now_ns() - start;
        self.last = start;
        // One that finds new code takes long, and is followed by some that don't.
        let usual = took.min(std::mem::replace(&mut self.took, took));
        self.next = start + uneven(EVERY_NS.max(usual * SHARE), start);
        found
    }
}

impl Tracer {
    /// A process has the lock of a file for which a thread waits. If it has one thread, it is that;
    /// returns whether it is so.
    fn blocks(&mut self, holder: u32, thread: u32) -> bool {
        let threads = self.threads.iter().filter(|(_, process)| **process == holder);
        let is_one = threads.take(2).count() < 2;
        if is_one {
            self.told.blockers.insert(thread, holder);
            let name = || std::fs::read_to_string(format!("/proc/{holder}/comm"));
            if !self.comms.contains_key(&holder)
                && let Ok(name) = name()
            {
                self.comms.insert(holder, name.trim_end().to_owned());
            }
        }
        is_one
    }
}

/// Returns which process has the lock of a file for which another one waits, by the kernel's list
/// of them (proc_locks(5)): those who wait stand below it.
fn blocker(locks: &str, waiter: u32) -> Option<u32> {
    let mut holder = None;
    for line in locks.lines() {
        let is_waiter = line.contains(" -> ");
        let process = line.split_whitespace().nth(if is_waiter { 5 } else { 4 })?.parse().ok();
        match is_waiter {
            true if process == Some(waiter) => return holder.filter(|of| *of != 0),
            true => {}
            false => holder = process,
        }
    }
    None
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
    fn who_waits_for_the_lock_of_a_file_stands_below_its_holder() {
        let locks = "1: POSIX  ADVISORY  READ 700 00:1b:9 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 701 00:1b:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 702 00:1b:12 0 EOF\n\
                     2:  -> FLOCK  ADVISORY  WRITE 703 00:1b:12 0 EOF\n\
                     3: OFDLCK ADVISORY  WRITE -1 00:1b:13 0 EOF\n\
                     3: -> POSIX  ADVISORY  WRITE 704 00:1b:13 0 EOF\n";
        let found = [700, 702, 703, 704].map(|waiter| blocker(locks, waiter));
        assert_eq!(found, [None, Some(701), Some(701), None]);
    }

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
}
