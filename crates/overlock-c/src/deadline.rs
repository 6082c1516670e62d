// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points in time, as C represents them.

use core::ffi::c_int;

use libc::EINVAL;

const NS_PER_S: u64 = 1_000_000_000;

/// Converts a time to nanoseconds. A time before the clock's zero becomes zero, a time after 584
/// years becomes never.
///
/// # Errors
/// `EINVAL` if the nanoseconds are not below a second.
pub(crate) fn in_ns(s: i64, ns: i64) -> Result<u64, c_int> {
    let ns = u64::try_from(ns).ok().filter(|&ns| ns < NS_PER_S).ok_or(EINVAL)?;
    Ok(match u64::try_from(s) {
        Ok(s) => s.saturating_mul(NS_PER_S).saturating_add(ns),
        Err(_) => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_and_clamped() {
        assert_eq!(in_ns(0, 0), Ok(0));
        assert_eq!(in_ns(2, 999_999_999), Ok(2_999_999_999));
        assert_eq!(in_ns(-1, 5), Ok(0));
        assert_eq!(in_ns(i64::MAX, 0), Ok(u64::MAX));
        assert_eq!(in_ns(18_446_744_073, 709_551_616), Ok(u64::MAX));
    }

    #[test]
    fn odd_nanoseconds_are_refused() {
        for bad in [-1, 1_000_000_000, i64::MIN, i64::MAX] {
            assert_eq!(in_ns(1, bad), Err(EINVAL), "{bad}");
            assert_eq!(in_ns(-1, bad), Err(EINVAL), "{bad}");
        }
    }
}
