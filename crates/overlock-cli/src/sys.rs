// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that std does not offer, behind safe functions.

pub(crate) use overlock_process::{may_run_on, run_on};
use std::io;
use std::mem::MaybeUninit;

/// Counts the CPUs that this process may run on: its affinity mask, not the CPUs plugged in.
pub(crate) fn allowed_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns whether this process ignores a signal, as under `nohup`.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the setting, and `action` is writable and of the right type.
    unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid sigaction, so it is initialised even if the call failed.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Returns the period of the scheduler's tick: coarse clocks advance once per tick.
pub(crate) fn tick_ns() -> Option<u64> {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is a valid timespec to write to.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } != 0;
    (!failed).then(|| tick.tv_nsec.unsigned_abs())
}

/// Tries to wake a waiter on a futex that has none.
pub(crate) fn futex_works() -> io::Result<()> {
    let word = 0_u32;
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a readable, aligned 32-bit word; waking reads nothing else.
    let woken = unsafe { libc::syscall(libc::SYS_futex, &raw const word, wake, 1) };
    if woken < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether a thread can ask for a few more microseconds before it is preempted.
///
/// Asks for the current setting; an older kernel answers with EINVAL. The numbers are those of
/// `PR_RSEQ_SLICE_EXTENSION` and `PR_RSEQ_SLICE_EXTENSION_GET` in Linux 7.0's `prctl.h`.
pub(crate) fn slice_extension() -> bool {
    const SLICE_EXTENSION: i32 = 79;
    const GET: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: reads a setting; takes integers and touches no memory.
    unsafe { libc::prctl(SLICE_EXTENSION, GET, UNUSED, UNUSED, UNUSED) >= 0 }
}
