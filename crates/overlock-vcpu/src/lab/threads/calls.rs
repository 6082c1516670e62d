// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world of a parked thread: its record is in a thread-local, a hypercall is a function call.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use overlock_bench::Verbs;

use super::context::{Context, leave};
use crate::lab::Error;
use crate::lab::guest::abi::Call;
use crate::lab::guest::door::{self, CallNumber, Door, Record, verbs};
use crate::lab::host::state::{Exit, Next};
use crate::lab::signal;

/// A thread that calls its host directly.
///
/// # Panics
/// Its verbs panic on a thread that is not a vCPU.
#[derive(Clone, Copy, Debug)]
pub struct Calls;

// SAFETY: the context of a thread holds the record of the vCPU that the thread runs.
unsafe impl Door for Calls {
    #[inline]
    fn record() -> Record {
        Record(current().record())
    }

    fn call(CallNumber(call): CallNumber, arguments: [u64; 2]) {
        let context = current();
        if call == Call::Started {
            // How long a thread takes to resume is not measured. A vCPU that has to run first keeps
            // its processor for four times as long, and each time for twice as long as before.
            context.host().shortest_visit_ns.fetch_min(10_000, Relaxed);
            return;
        }
        context.set_in_guest(false);
        if context.exit(Exit::Call(call, arguments)) == Next::Leave {
            leave_here(context);
        }
        context.interrupt();
    }
}

impl Verbs for Calls {
    verbs!();

    fn pm_timer() -> u32 {
        let context = current();
        // Out of the guest, so that no thread is parked inside the device.
        context.set_in_guest(false);
        let value = context.host().pm_timer(context.record().number);
        context.set_in_guest(true);
        if context.host().evicted(context.record().number) {
            context.set_in_guest(false);
            if context.exit(Exit::Evicted { rip: None, ran: true }) == Next::Leave {
                leave_here(context);
            }
        }
        context.interrupt();
        value
    }
}

fn current() -> &'static Context {
    Context::current().expect("this thread is not a vCPU of the threads engine")
}

/// Leaves the program for good, from inside a call.
fn leave_here(context: &Context) -> ! {
    let here = 0_u64;
    let saved = context.leave_from(leave_here as *const () as u64, (&raw const here) as u64);
    // SAFETY: the program made the call, so this thread's `enter` has not returned, and the frames
    // in between (the program's, this function's and its callers') own nothing.
    unsafe { leave(saved) }
}

/// Parks the thread, if it is in the program, until its vCPU owns a processor again.
extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, interrupted: *mut libc::c_void) {
    let Some(context) = Context::current() else { return };
    if !context.in_guest() {
        return;
    }
    // SAFETY: the system passes a valid context to a handler installed with SA_SIGINFO.
    let registers = unsafe { &mut (*interrupted.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let (address, stack) = (registers[libc::REG_RIP as usize], registers[libc::REG_RSP as usize]);
    let (address, stack) = (address as u64, stack as u64);
    let mut leaves = || {
        let saved = context.leave_from(address, stack);
        // The return from this handler is a call of `leave(saved)`.
        registers[libc::REG_RIP as usize] = leave as *const () as i64;
        registers[libc::REG_RDI as usize] = saved as i64;
    };
    if !context.has_room() {
        context.note_overflow();
        return leaves();
    }
    context.set_in_guest(false);
    let wanted = context.host().wants_sample(context.record().number);
    // SAFETY: the address of this thread's own error number.
    let errno = unsafe { *libc::__errno_location() };
    if context.exit(Exit::Evicted { rip: wanted.then_some(address), ran: true }) == Next::Leave {
        return leaves();
    }
    if context.record().deliverable() {
        // A vCPU that serves an interrupt in here must still be preemptible.
        signal::unblock(signal::threads());
        context.interrupt();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Makes the engine's signal park threads.
pub(super) fn install_handler() -> Result<(), Error> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.get().is_none() {
        // Blocked in its own handler: signals pile up while the system keeps a thread from running,
        // and with SA_NODEFER the second of two would interrupt the first one's handler before its
        // first instruction, instead of the program.
        signal::install(signal::threads(), on_signal, libc::SA_RESTART, &[])?;
        INSTALLED.get_or_init(|| ());
    }
    Ok(())
}
