//! A thread of another process, run one instruction at a time: ptrace(2), x86-64.

use std::io;
use std::ptr;

use super::oracle::asleep;

/// A stopped thread that this thread traces. It runs freely again once this is dropped.
pub(crate) struct Stepped(libc::pid_t);

/// What happened to a thread that was let go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has executed an instruction.
    Step,
    /// It is about to receive a signal, which is withheld.
    Signal(i32),
    Asleep,
    Gone,
}

impl Stepped {
    /// Traces a thread, which keeps running. `None` if this process may not trace it.
    pub(crate) fn seize(thread: libc::pid_t) -> Option<Self> {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: no memory is passed.
        let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, nothing, nothing) };
        (seized == 0).then_some(Self(thread))
    }

    pub(crate) fn child(child: libc::pid_t) -> Self {
        Self(child)
    }

    /// Executes one instruction. If that is a system call that sleeps, the thread keeps running:
    /// see [`wait`](Self::wait).
    pub(crate) fn step(&self) -> Stop {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: the thread is stopped and traced by this one; no signal is delivered.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.0, nothing, nothing) };
        assert_eq!(stepped, 0, "PTRACE_SINGLESTEP: {}", io::Error::last_os_error());
        self.wait()
    }

    /// Waits until a running thread has stopped or sleeps.
    pub(crate) fn wait(&self) -> Stop {
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid to write to.
            let waited =
                unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL | libc::WNOHANG) };
            assert!(waited >= 0, "waitpid: {}", io::Error::last_os_error());
            if waited == 0 {
                if asleep(self.0).is_some() {
                    return Stop::Asleep;
                }
                std::thread::yield_now();
            } else if !libc::WIFSTOPPED(status) {
                return Stop::Gone;
            } else if libc::WSTOPSIG(status) == libc::SIGTRAP {
                return Stop::Step;
            } else {
                return Stop::Signal(libc::WSTOPSIG(status));
            }
        }
    }

    /// The address of the next instruction.
    pub(crate) fn at(&self) -> u64 {
        self.registers().rip
    }

    pub(crate) fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: the structure holds only numbers, for which all-zero bytes are valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: the thread is stopped and traced; `registers` is valid to write to.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, nothing, &raw mut registers) };
        assert_eq!(got, 0, "PTRACE_GETREGS: {}", io::Error::last_os_error());
        registers
    }

    pub(crate) fn peek(&self, address: u64) -> u64 {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: the thread is stopped and traced by this one; the kernel checks the address.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, address, nothing) as u64 }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: no memory is passed; if the thread is not stopped, nothing happens.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, nothing, nothing) };
    }
}
