//! Points in time, as C represents them.
//!
//! They are on the program's clock, which a preloaded library may have changed (libfaketime), while
//! the locks use the kernel's.

use core::ffi::c_int;

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EINVAL, clockid_t};
use overlock::platform::clock::{ahead_of, in_ns as in_ns_of};
use overlock::platform::{Platform, Threads};

const NS_PER_S: u64 = 1_000_000_000;

/// Converts a time on the program's `CLOCK_MONOTONIC` to the kernel's, in nanoseconds. A time
/// before the clock's zero becomes zero, a time after 584 years becomes never.
///
/// # Errors
/// `EINVAL` if the nanoseconds are not below a second.
pub(crate) fn on_kernels_clock(s: i64, ns: i64) -> Result<u64, c_int> {
    in_ns(s, ns, ahead_of(CLOCK_MONOTONIC, || programs(CLOCK_MONOTONIC)))
}

/// Converts a time on one of the program's clocks, as it is set now, like [`on_kernels_clock`].
///
/// # Errors
/// `EINVAL` if the nanoseconds are not below a second, or the clock is neither `CLOCK_MONOTONIC`
/// nor `CLOCK_REALTIME`.
pub(crate) fn on_clock(clock: clockid_t, s: i64, ns: i64) -> Result<u64, c_int> {
    match clock {
        CLOCK_MONOTONIC => on_kernels_clock(s, ns),
        CLOCK_REALTIME => {
            let now = programs(CLOCK_REALTIME);
            let now = in_ns_of(&now);
            // Read last, so that what passes in between makes the deadline later.
            in_ns(s, ns, Threads::now_ns().cast_signed().saturating_sub(now))
        }
        _ => Err(EINVAL),
    }
}

/// Reads one of the program's clocks, which exists on every Linux.
fn programs(clock: clockid_t) -> libc::timespec {
    // SAFETY: zeros are a time. (A literal can't have the padding of some machines.)
    let mut now = unsafe { core::mem::zeroed() };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now
}

/// Converts a time to nanoseconds on a clock that is ahead of it.
fn in_ns(s: i64, ns: i64, ahead: i64) -> Result<u64, c_int> {
    let ns = u64::try_from(ns).ok().filter(|&ns| ns < NS_PER_S).ok_or(EINVAL)?;
    let at = i128::from(s) * i128::from(NS_PER_S) + i128::from(ns) + i128::from(ahead);
    Ok(at.clamp(0, i128::from(u64::MAX)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_and_clamped() {
        assert_eq!(in_ns(0, 0, 0), Ok(0));
        assert_eq!(in_ns(2, 999_999_999, 0), Ok(2_999_999_999));
        assert_eq!(in_ns(-1, 5, 0), Ok(0));
        assert_eq!(in_ns(i64::MAX, 0, 0), Ok(u64::MAX));
        assert_eq!(in_ns(18_446_744_073, 709_551_616, 0), Ok(u64::MAX));
        assert_eq!(in_ns(-3, 5, 4_000_000_000), Ok(1_000_000_005));
        assert_eq!(in_ns(3, 5, -4_000_000_000), Ok(0));
    }

    #[test]
    fn odd_nanoseconds_are_refused() {
        for bad in [-1, 1_000_000_000, i64::MIN, i64::MAX] {
            assert_eq!(in_ns(1, bad, 0), Err(EINVAL), "{bad}");
            assert_eq!(in_ns(-1, bad, 0), Err(EINVAL), "{bad}");
        }
    }
}
