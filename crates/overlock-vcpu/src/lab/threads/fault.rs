// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults and panics of a program on a thread: caught, explained, and limited to that run.

use std::panic::{self, PanicHookInfo};
use std::ptr;
use std::sync::OnceLock;

use super::context::{Context, leave};
use crate::lab::{Error, signal};

/// The signals of a faulting program.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// How far below a stack an access still counts as an overflow, in bytes: two guard pages.
const NEAR: u64 = 8192;

/// The previous actions for [`FAULTS`].
static BEFORE: OnceLock<[libc::sigaction; FAULTS.len()]> = OnceLock::new();

/// Makes faults and panics of a program end the program instead of the process.
///
/// Faults and panics anywhere else are passed on to their previous handlers.
pub(super) fn install_handlers() -> Result<(), Error> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all-zero is a valid `sigaction`.
    let mut before: [libc::sigaction; FAULTS.len()] = unsafe { std::mem::zeroed() };
    for (before, fault) in before.iter_mut().zip(FAULTS) {
        // On the alternate stack, which Rust gives every thread, because the fault may be a stack
        // overflow. There is no room on it for the signal that parks the thread, and its handler.
        *before = signal::install(fault, on_fault, libc::SA_ONSTACK, &[signal::threads()])?;
    }
    BEFORE.get_or_init(|| before);
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| match Context::current() {
        Some(context) if context.in_guest() => on_panic(context, info),
        _ => others(info),
    }));
    Ok(())
}

extern "C" fn on_fault(number: i32, info: *mut libc::siginfo_t, interrupted: *mut libc::c_void) {
    let Some(context) = Context::current().filter(|context| context.in_guest()) else {
        return pass_on(number);
    };
    // SAFETY: the system passes valid details to a handler installed with SA_SIGINFO.
    let (code, accessed) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // SAFETY: as above.
    let interrupted = unsafe { &mut *interrupted.cast::<libc::ucontext_t>() };
    // Nor may that signal come before `leave` has left the stack, which may be full: the system
    // would end the process.
    // SAFETY: the set is valid, and so is the number.
    unsafe { libc::sigaddset(&raw mut interrupted.uc_sigmask, signal::threads()) };
    let registers = &mut interrupted.uc_mcontext.gregs;
    let address = registers[libc::REG_RIP as usize] as u64;
    let saved = context.leave_from(address, registers[libc::REG_RSP as usize] as u64);
    context.note_fault(number, code, accessed);
    // The return from this handler is a call of `leave(saved)`.
    registers[libc::REG_RIP as usize] = leave as *const () as i64;
    registers[libc::REG_RDI as usize] = saved as i64;
}

/// Restores the previous action for this fault, and lets it happen again.
fn pass_on(number: i32) {
    let at = FAULTS.iter().position(|&fault| fault == number).unwrap_or(0);
    if let Some(before) = BEFORE.get() {
        // SAFETY: a structure that the system itself filled in.
        unsafe { libc::sigaction(number, &raw const before[at], ptr::null_mut()) };
    }
}

/// Explains what a fault signal means.
pub(super) fn explain(number: i32, code: i32, accessed: u64, bottom: u64) -> String {
    match number {
        libc::SIGSEGV if (bottom.saturating_sub(NEAR)..bottom).contains(&accessed) => {
            "overflowed its stack".into()
        }
        libc::SIGSEGV | libc::SIGBUS if accessed < 0x1000 && code > 0 => {
            format!("used the null pointer (address {accessed:#x})")
        }
        libc::SIGSEGV | libc::SIGBUS => {
            format!("used address {accessed:#x}, which is not mapped for this access")
        }
        libc::SIGILL => "executed ud2 or another instruction that does not exist".into(),
        libc::SIGFPE => "divided by zero".into(),
        _ => "executed a breakpoint".into(),
    }
}

fn on_panic(context: &Context, info: &PanicHookInfo) {
    // From here on the thread is in the standard library, not in the program.
    context.set_in_guest(false);
    let here = 0_u64;
    let place = context.place(on_panic as *const () as u64, (&raw const here) as u64);
    let message = info.payload_as_str().unwrap_or("for no stated reason");
    let message = match info.location() {
        Some(location) => Some(format!("{message} ({location})")),
        None => Some(message.to_owned()),
    };
    let vcpu = context.record().number;
    context.set_error(Error::Panicked { vcpu, message, place: place.without_panic_machinery() });
}
