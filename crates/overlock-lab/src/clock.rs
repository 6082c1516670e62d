// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one clock of a run, readable by a guest: the time stamp counter, scaled to nanoseconds.
//!
//! A guest can make no system call, so host and guests read the counter with `rdtsc` and scale it
//! alike: `ns = (tsc - origin) * scale >> 32`. The rate is measured once for each process.

use std::arch::x86_64::_rdtsc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Converts the time stamp counter to nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

/// How long the rate is measured: an interruption of 10 us then errs by 0.05 %.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// A clock that starts at zero now. The first call in a process takes 20 ms.
    pub(crate) fn start() -> Self {
        static SCALE: OnceLock<u64> = OnceLock::new();
        let scale = *SCALE.get_or_init(measure);
        Self { origin: ticks(), scale }
    }

    /// Nanoseconds since the start, on the host.
    pub(crate) fn now_ns(&self) -> u64 {
        self.ns(ticks())
    }

    /// Nanoseconds since the start when the host's counter showed `ticks`.
    #[inline]
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        let since = u128::from(ticks.wrapping_sub(self.origin));
        ((since * u128::from(self.scale)) >> 32) as u64
    }

    /// Ticks in `span`, or as many as there can be.
    pub(crate) fn ticks_in(&self, span: Duration) -> u64 {
        let ticks = (span.as_nanos() << 32) / u128::from(self.scale);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// The time stamp counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and is open to user code on Linux.
    unsafe { _rdtsc() }
}

/// Nanoseconds per tick, times 2^32.
fn measure() -> u64 {
    let (start, first) = (Instant::now(), ticks());
    std::thread::sleep(CALIBRATION);
    let (elapsed, last) = (start.elapsed(), ticks());
    ((elapsed.as_nanos() << 32) / u128::from(last - first)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_kernels_clock() {
        let (clock, start) = (Clock::start(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (ours, theirs) = (clock.now_ns() as f64, start.elapsed().as_nanos() as f64);
        assert!((ours / theirs - 1.0).abs() < 0.05, "{ours} ns against {theirs} ns");
    }
}
