//! Sleeps that the preloaded library does not tell of: in system calls, and in futexes that a
//! program waits for itself, as the locks of Rust's standard library do.
//!
//! A few looks tell what for and where. Each stands for the sleeps since the one before it.

use crate::analysis::What;
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
        let (start, mut found) = (platform::now_ns(), Vec::new());
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
                found.push((at, thread, What::Sleeps(reason, site, every)));
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
}
