// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of all measurements: the time stamp counter where it can be trusted.
//!
//! On x86-64 with a TSC that neither stops nor changes its rate (and that the kernel trusts enough
//! to keep time by it) a stamp is one `rdtsc`. Elsewhere it is `clock_gettime`. The same clock
//! stamps every lock of a run, so its cost (10 to 20 ns) is the same for all.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How to take stamps, and what a tick is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clock {
    tsc: bool,
    ticks_per_ns: f64,
}

impl Clock {
    /// Chooses the clock of this machine and measures its rate (takes about 20 ms).
    pub(crate) fn calibrate() -> Self {
        if !tsc_is_trusted() {
            return Clock { tsc: false, ticks_per_ns: 1.0 };
        }
        let clock = Clock { tsc: true, ticks_per_ns: 1.0 };
        let mut rates: Vec<f64> = (0..5).map(|_| clock.rate(Duration::from_millis(4))).collect();
        rates.sort_by(f64::total_cmp);
        Clock { ticks_per_ns: rates[rates.len() / 2], ..clock }
    }

    /// Returns ticks per nanosecond over one span of wall time.
    fn rate(&self, span: Duration) -> f64 {
        let (start, ticks) = (Instant::now(), self.now());
        while start.elapsed() < span {
            std::hint::spin_loop();
        }
        let (elapsed, ticks) = (start.elapsed(), self.now() - ticks);
        ticks as f64 / elapsed.as_nanos() as f64
    }

    /// Takes a stamp in ticks; never 0.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.tsc {
            // SAFETY: `rdtsc` exists on every x86-64 CPU; where the kernel forbids it to user
            // space, `tsc_is_trusted` has said no.
            return unsafe { core::arch::x86_64::_rdtsc() };
        }
        monotonic_ns()
    }

    /// Returns the rate of the time stamp counter in kHz, if it is the clock.
    pub(crate) fn tsc_khz(&self) -> Option<u64> {
        self.tsc.then_some((self.ticks_per_ns * 1e6).round() as u64)
    }

    /// Returns the rate of the clock.
    pub(crate) fn ticks_per_ns(self) -> f64 {
        self.ticks_per_ns
    }

    /// Converts ticks to nanoseconds.
    pub(crate) fn to_ns(self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    /// Converts nanoseconds to ticks.
    pub(crate) fn to_ticks(self, nanos: f64) -> u64 {
        (nanos * self.ticks_per_ns) as u64
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clock id exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns whether the TSC ticks at one constant rate on all CPUs.
///
/// The kernel checks this continuously, and drops the TSC as its clock source when it drifts.
pub(crate) fn tsc_is_trusted() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_measure_a_sleep() {
        for clock in [Clock::calibrate(), Clock { tsc: false, ticks_per_ns: 1.0 }] {
            let start = clock.now();
            std::thread::sleep(Duration::from_millis(20));
            let slept = clock.to_ns(clock.now() - start);
            assert!(slept >= 19e6, "{clock:?} saw {slept} ns in a sleep of 20 ms");
        }
    }

    #[test]
    fn ticks_and_nanoseconds_convert_both_ways() {
        let clock = Clock { tsc: true, ticks_per_ns: 2.1 };
        assert_eq!(clock.to_ticks(1000.0), 2100);
        assert!((clock.to_ns(2100) - 1000.0).abs() < 1e-9);
        assert_eq!(clock.tsc_khz(), Some(2_100_000));
    }
}
