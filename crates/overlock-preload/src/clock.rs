//! Deadlines on the two clocks of POSIX, for locks that know only the kernel's monotonic one.
//!
//! A preloaded library can change the clocks of the program (libfaketime). If ours comes first, the
//! program's deadlines are on the changed clocks; if the other comes first, it converts them before
//! it calls ours. In both cases they are on the clocks that libc would see in our place: those of
//! the next library. Only a clock that stands still, or goes at another speed, is not followed.

use libc::{c_int, clockid_t, timespec};

use overlock::platform::clock::{ahead_of, now_on};
use overlock::platform::{Platform as _, Threads};

use crate::real;

const NS_PER_S: u64 = 1_000_000_000;

/// The first wait, in nanoseconds, before `CLOCK_REALTIME` is read again; each later one may be
/// twice as long. That clock can be set while a thread waits, and a deadline on it must follow; the
/// thread notices after twice its wait at most.
const REALTIME_SLICE_NS: u64 = NS_PER_S;

/// The shortest and the longest sleep of a [`Poll`], in nanoseconds: about the cost of a sleep, and
/// a delay that a program does not notice.
const POLL_NS: core::ops::RangeInclusive<u64> = 20_000..=1_000_000;

/// A deadline as POSIX defines it: a time on one of two clocks.
pub(crate) struct Deadline {
    clock: clockid_t,
    at_ns: u64,
}

impl Deadline {
    /// Creates the deadline `at` on `clock`.
    ///
    /// # Errors
    /// `EINVAL` if the nanoseconds are not in 0 to 999,999,999. (A clock is checked with
    /// [`is_supported`].)
    pub(crate) fn new(clock: clockid_t, at: &timespec) -> Result<Self, c_int> {
        if !is_valid(at) {
            return Err(libc::EINVAL);
        }
        let at = on_kernels(clock, at);
        // A time before the epoch has passed, like the epoch itself.
        let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
        let at_ns = seconds.saturating_mul(NS_PER_S).saturating_add(at.tv_nsec as u64);
        Ok(Self { clock, at_ns })
    }

    /// Tries until `attempt` returns 0 or an error other than `ETIMEDOUT`, or until the deadline
    /// has passed. `attempt` receives a time on `CLOCK_MONOTONIC`, in nanoseconds, at which it has
    /// to give up and return `ETIMEDOUT`. Each attempt may last as long as those before it
    /// together, so that what it has reached is not given up again and again.
    pub(crate) fn attempt(&self, mut attempt: impl FnMut(u64) -> c_int) -> c_int {
        if self.clock == libc::CLOCK_MONOTONIC {
            return attempt(self.at_ns);
        }
        let mut slice = REALTIME_SLICE_NS;
        loop {
            let left = self.at_ns.saturating_sub(now_on(self.clock)).min(slice);
            let error = attempt(now_on(libc::CLOCK_MONOTONIC) + left);
            if error != libc::ETIMEDOUT || left == 0 {
                return error;
            }
            slice = slice.saturating_mul(2);
        }
    }
}

/// Converts a valid time on the next library's clock to the kernel's.
pub(crate) fn on_kernels(clock: clockid_t, at: &timespec) -> timespec {
    let second = NS_PER_S.cast_signed();
    let ahead = ahead_of(clock, || {
        let mut next = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `next` is writable, and the caller's clock exists.
        unsafe { real::clock_gettime(clock, &raw mut next) };
        next
    });
    let ns = at.tv_nsec + ahead.rem_euclid(second);
    let s = at.tv_sec.saturating_add(ahead.div_euclid(second)).saturating_add(ns / second);
    timespec { tv_sec: s, tv_nsec: ns % second }
}

/// Returns whether the nanoseconds of a time are less than a second.
pub(crate) fn is_valid(at: &timespec) -> bool {
    u64::try_from(at.tv_nsec).is_ok_and(|ns| ns < NS_PER_S)
}

/// Returns whether a thread can wait for a mutex or a condition variable on this clock.
pub(crate) fn is_supported(clock: clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC
}

/// Sleeps that grow from one to the next, for a thread that has to poll.
pub(crate) struct Poll {
    next_ns: u64,
}

impl Poll {
    /// The first sleep is the shortest.
    pub(crate) fn new() -> Self {
        Self { next_ns: *POLL_NS.start() }
    }

    pub(crate) fn sleep(&mut self) {
        Threads::nap(self.next_ns);
        self.next_ns = (self.next_ns * 2).min(*POLL_NS.end());
    }
}
