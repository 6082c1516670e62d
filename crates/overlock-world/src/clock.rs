// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of all measurements: the time stamp counter, scaled to nanoseconds.
//!
//! A guest can make no system call, so host and guests read the counter with `rdtsc` and scale it
//! in the same way: `ns = (ticks - origin) * scale >> 32`. The rate is measured once per process,
//! as the median over a few spans. Where there is no such counter, ticks are nanoseconds of the
//! system's monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Converts the time stamp counter to nanoseconds since the clock was created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

/// How many spans the rate is measured over, and how long each is: an interruption spoils only one.
const SPANS: usize = 5;
const SPAN: Duration = Duration::from_millis(4);

impl Clock {
    /// A clock that starts at zero now. The first call in a process takes 20 ms.
    #[must_use]
    pub fn start() -> Self {
        static SCALE: OnceLock<u64> = OnceLock::new();
        let scale = *SCALE.get_or_init(measure);
        Self { origin: ticks(), scale }
    }

    /// Nanoseconds since the start, on the host.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.ns(ticks())
    }

    /// Nanoseconds from the start until the host's counter showed `ticks`.
    #[inline]
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        let since = u128::from(ticks.wrapping_sub(self.origin));
        ((since * u128::from(self.scale)) >> 32) as u64
    }

    /// Ticks in `span`, or the largest number there is.
    #[must_use]
    pub fn ticks_in(&self, span: Duration) -> u64 {
        let ticks = (span.as_nanos() << 32) / u128::from(self.scale);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and is open to user code on Linux.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Nanoseconds since some moment of this process.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn ticks() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds per tick, times 2^32.
fn measure() -> u64 {
    let mut scales: Vec<u64> = (0..SPANS).map(|_| scale_over(SPAN)).collect();
    scales.sort_unstable();
    scales[SPANS / 2]
}

fn scale_over(span: Duration) -> u64 {
    let (start, first) = (Instant::now(), ticks());
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
    let (elapsed, last) = (start.elapsed(), ticks());
    ((elapsed.as_nanos() << 32) / u128::from((last - first).max(1))) as u64
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
