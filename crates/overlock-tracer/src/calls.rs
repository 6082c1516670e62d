// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls in which threads sleep, by `/proc`.

use crate::points::{FUTEX_COMMAND, WAITS};

/// Returns whether a thread sleeps in a futex now.
pub(crate) fn is_in_futex(process: u32, thread: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"));
    let call = call.unwrap_or_default();
    let mut words = call.split_whitespace();
    let (number, op) = (words.next().and_then(number), words.nth(1).and_then(number));
    number.is_some_and(|number| i64::try_from(number) == Ok(libc::SYS_futex))
        && op.is_some_and(|op| WAITS.iter().any(|wait| u64::from(*wait) == op & FUTEX_COMMAND))
}

/// Reads a number of such a file.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse::<i64>().ok().map(i64::cast_unsigned),
    }
}
