// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signals that bring a vCPU out of the guest.

use std::io;
use std::ptr;

use crate::lab::Error;

/// A handler that receives the signal's details and the interrupted context.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The signal of the KVM engine.
pub(crate) fn kvm() -> i32 {
    libc::SIGRTMIN() + 1
}

/// The signal of the threads engine.
pub(crate) fn threads() -> i32 {
    libc::SIGRTMIN() + 2
}

/// Makes the process call `handler` on `signal`, with the signals `blocked` kept away meanwhile,
/// and returns the previous action.
///
/// # Errors
/// When the system refuses, which it does only for signals that cannot be handled.
pub(crate) fn install(
    signal: i32,
    handler: Handler,
    flags: i32,
    blocked: &[i32],
) -> Result<libc::sigaction, Error> {
    // SAFETY: all-zero is a valid `sigaction` (an empty mask, the default handler).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    for &number in blocked {
        // SAFETY: the set is valid, and `number` is a valid signal.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, number) };
    }
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structures are valid, and `handler` has the type that SA_SIGINFO requires.
    let result = unsafe { libc::sigaction(signal, ptr::from_ref(&action), &raw mut before) };
    if result == 0 {
        return Ok(before);
    }
    Err(Error::Io { attempt: "install a signal handler", source: io::Error::last_os_error() })
}

/// Unblocks `signal` for the calling thread, inside its own handler. Safe in a handler.
pub(crate) fn unblock(signal: i32) {
    // SAFETY: any value will do; the next call fills it.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid, and `signal` is a valid number.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}
