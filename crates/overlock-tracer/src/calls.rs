// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls in which threads sleep, by `/proc`.

use crate::points::{FUTEX_COMMAND, WAITS};

/// The call in which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A wait by a futex.
    Futex,
    /// Another one, by its number; -1 if it sleeps outside of any call.
    Other(i64),
    /// It does not sleep, or that is a secret.
    Unknown,
}

/// Returns in which call a thread sleeps now.
pub(crate) fn call(process: u32, thread: u32) -> Call {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"));
    let text = text.unwrap_or_default();
    let mut words = text.split_whitespace();
    let (call, op) = (words.next().and_then(number), words.nth(1).and_then(number));
    match call.map(u64::cast_signed) {
        Some(call) if op.is_some_and(|op| is_futex_wait(call, op)) => Call::Futex,
        Some(call) => Call::Other(call),
        None => Call::Unknown,
    }
}

/// Returns whether a call with this second argument is a wait by a futex.
pub(crate) fn is_futex_wait(call: i64, op: u64) -> bool {
    call == libc::SYS_futex && WAITS.iter().any(|wait| u64::from(*wait) == op & FUTEX_COMMAND)
}

/// Says in words in which system call a thread sleeps.
pub(crate) fn words(call: i64) -> String {
    let name = match call {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => "sleep for a time",
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv => "read",
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev => "write",
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_msync => "a disk, for its data",
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => "poll",
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => "epoll",
        libc::SYS_recvfrom | libc::SYS_recvmsg => "receive",
        libc::SYS_sendto | libc::SYS_sendmsg => "send",
        libc::SYS_wait4 | libc::SYS_waitid => "wait for a process",
        libc::SYS_futex => "a futex",
        // Outside of any system call, only a fault makes a thread sleep.
        -1 => "page fault",
        other => return format!("system call {other}"),
    };
    name.to_owned()
}

/// Reads a number of such a file.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse::<i64>().ok().map(i64::cast_unsigned),
    }
}
