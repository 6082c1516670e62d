//! The signal that brings a vCPU out of the guest.

use std::io;
use std::ptr;

use crate::lab::Error;

pub(crate) fn number() -> i32 {
    libc::SIGRTMIN() + 1
}

/// Makes the process call `handler` on the signal.
pub(crate) fn install(handler: extern "C" fn(i32)) -> Result<(), Error> {
    // SAFETY: all-zero is a valid `sigaction` (an empty mask, no flags).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the structure is valid, and `handler` has the type that a handler without SA_SIGINFO
    // has.
    match unsafe { libc::sigaction(number(), &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Error::io("install a signal handler")(io::Error::last_os_error())),
    }
}
