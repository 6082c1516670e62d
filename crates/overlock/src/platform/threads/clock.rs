// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of spin budgets and deadlines: `CLOCK_MONOTONIC`.
//!
//! Budgets are time, not iterations: a PAUSE takes 10 cycles on one processor and 140 on another. A
//! spin loop reads the clock only once in some tens of pauses, so the cost of a reading (a vDSO
//! call, about 25 ns where the kernel trusts the time stamp counter) does not matter. A raw counter
//! would save little and would have to be calibrated.

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
