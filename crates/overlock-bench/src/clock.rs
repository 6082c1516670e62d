//! The clocks of all measurements: the time stamp counter, scaled.
//!
//! | clock | a reading is | for |
//! |---|---|---|
//! | [`Clock`] | nanoseconds since its start | worlds |
//! | [`Stamps`] | ticks, to be scaled later | the benchmark: a stamp is one instruction |
//!
//! A guest can make no system call, so host and guests of a world read the counter and scale it in
//! the same way.
//!
//! The rate of the counter is measured once per process for both: the median over a few spans, so
//! that an interruption spoils only one of them. Where there is no such counter, ticks are
//! nanoseconds of the system's monotonic clock; `Stamps` takes these also where the kernel does not
//! trust the counter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Converts the time stamp counter to nanoseconds since the clock was created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

/// How many spans the rate is measured over, and how long each is.
const SPANS: usize = 5;
const SPAN: Duration = Duration::from_millis(4);

impl Clock {
    /// A clock that starts at zero now. The first call in a process takes 20 ms.
    pub fn start() -> Self {
        let scale = ((1_u64 << 32) as f64 / ticks_per_ns()) as u64;
        Self { origin: ticks(), scale }
    }

    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.ns(ticks())
    }

    /// Nanoseconds from the start until the host's counter showed `ticks`.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        let since = u128::from(ticks.wrapping_sub(self.origin));
        ((since * u128::from(self.scale)) >> 32) as u64
    }

    /// Ticks in `span`, or the largest number there is.
    pub fn ticks_in(&self, span: Duration) -> u64 {
        let ticks = (span.as_nanos() << 32) / u128::from(self.scale);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Takes stamps in ticks, of the time stamp counter or of the system's monotonic clock.
///
/// The counter is taken where its rate is constant and the same on all CPUs. The same clock stamps
/// every lock of a run, so its cost (10 to 20 ns) is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamps {
    tsc: bool,
    pub(crate) ticks_per_ns: f64,
}

impl Stamps {
    /// Chooses the clock of this machine. The first call in a process takes 20 ms.
    pub fn calibrate() -> Self {
        if tsc_is_trusted() {
            Self { tsc: true, ticks_per_ns: ticks_per_ns() }
        } else {
            Self { tsc: false, ticks_per_ns: 1.0 }
        }
    }

    /// Takes a stamp in ticks; never 0.
    #[inline]
    pub fn now(&self) -> u64 {
        if self.tsc { ticks() } else { monotonic() }
    }

    /// Takes a stamp after all loads before it, so after the read-modify-write that took a lock.
    ///
    /// Without a fence a processor may read the counter early: on AMD's Zen 3, grants then seemed
    /// to come before the release that made way for them.
    #[inline]
    pub fn now_after_loads(&self) -> u64 {
        if self.tsc { ticks_after_loads() } else { monotonic() }
    }

    pub fn tsc_khz(&self) -> Option<u64> {
        self.tsc.then_some((self.ticks_per_ns * 1e6).round() as u64)
    }

    pub fn to_ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    pub fn to_ticks(&self, nanos: f64) -> u64 {
        (nanos * self.ticks_per_ns) as u64
    }
}

/// Whether the time stamp counter ticks at one constant rate on all CPUs.
///
/// The kernel checks this continuously, and drops the counter as its clock source when it drifts.
pub fn tsc_is_trusted() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and is open to user code on Linux.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// [`ticks`], after all loads before it (as Linux's `rdtsc_ordered`, arch/x86/include/asm/tsc.h).
#[inline(always)]
pub fn ticks_after_loads() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `lfence` is part of SSE2, which every x86-64 processor has.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    ticks()
}

/// Nanoseconds since some moment of this process.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    monotonic()
}

/// Nanoseconds since some moment of this process; never 0.
fn monotonic() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// The rate of [`ticks`], measured by the first call.
fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let mut rates: Vec<f64> = (0..SPANS).map(|_| rate_over(SPAN)).collect();
        rates.sort_by(f64::total_cmp);
        rates[SPANS / 2]
    })
}

fn rate_over(span: Duration) -> f64 {
    let (start, first) = (Instant::now(), ticks());
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
    let (elapsed, last) = (start.elapsed(), ticks());
    (last - first).max(1) as f64 / elapsed.as_nanos() as f64
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

    #[test]
    fn stamps_of_both_sources_measure_a_sleep() {
        for stamps in [Stamps::calibrate(), Stamps { tsc: false, ticks_per_ns: 1.0 }] {
            let start = stamps.now();
            std::thread::sleep(Duration::from_millis(20));
            let slept = stamps.to_ns(stamps.now() - start);
            assert!(slept >= 19e6, "{stamps:?} saw {slept} ns in a sleep of 20 ms");
        }
    }

    #[test]
    fn ticks_and_nanoseconds_convert_both_ways() {
        let stamps = Stamps { tsc: true, ticks_per_ns: 2.1 };
        assert_eq!(stamps.to_ticks(1000.0), 2100);
        assert!((stamps.to_ns(2100) - 1000.0).abs() < 1e-9);
        assert_eq!(stamps.tsc_khz(), Some(2_100_000));
    }
}
