// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that std does not offer, behind safe functions.

pub(crate) use overlock_bench::{Usage, may_run_on};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

/// Counts the CPUs that this process may run on: its affinity mask, not the CPUs plugged in.
pub(crate) fn allowed_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Binds this thread to CPU number `cpu`.
pub(crate) fn run_on(cpu: usize) -> std::io::Result<()> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all-zero bytes are a valid set.
    let set = unsafe { set.assume_init_mut() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is in the set, as checked.
    unsafe { libc::CPU_SET(cpu, set) };
    // SAFETY: `set` is readable and as large as stated.
    let failed = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) != 0 };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether the file at `path` carries capabilities.
pub(crate) fn has_file_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: both strings end in a nul; a size of 0 asks for the length and writes nothing.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), null_mut(), 0) };
    length > 0
}

/// Returns the user and the group that started this process.
pub(crate) fn real_ids() -> (u32, u32) {
    // SAFETY: both always succeed.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// Opens a descriptor that becomes readable when process `pid` ends.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call has just made this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits until `fd` is readable; returns false if `limit` passed or a signal came first.
pub(crate) fn wait_readable(fd: &OwnedFd, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `poll` is one valid entry, and the count given is one.
    unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
}

/// Reaps the child `pid`, waiting if needed; returns its wait status and what it used.
pub(crate) fn wait4(pid: i32) -> io::Result<(i32, Usage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the right type.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            // SAFETY: all-zero bytes are a valid rusage, and the call has filled it in.
            return Ok((status, unsafe { usage.assume_init() }.into()));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Sends a signal to a process, or to a process group if `pid` is negative.
///
/// It is no error if the process has already gone.
pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: takes two integers and touches no memory.
    unsafe { libc::kill(pid, signal) };
}

/// Returns whether this process ignores a signal, as under `nohup`.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the setting, and `action` is writable and of the right type.
    unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid sigaction, so it is initialised even if the call failed.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Returns the usual name of a signal.
pub(crate) fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).unwrap_or("unnamed").to_owned()
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
