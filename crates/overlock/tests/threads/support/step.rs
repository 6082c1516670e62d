// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions that a call executes. A forked child makes the call, one step at a time.
//!
//! ```text
//!  child                          : tracer (the thread that forked)
//!                                 :
//!  asks to be traced, stops ----->: steps until the child stands at the function's first
//!  calls the function             : instruction; reads where it will return to; counts the steps
//!                                 : until it is there; ends the child
//! ```

use std::io;
use std::ptr;

/// A function that takes a lock word. Any value that it returns is ignored.
pub(crate) type Probe = unsafe extern "C" fn(*mut u32);

/// More steps than are needed from the stop to the call, or through any probe.
const STEPS_MAX: usize = 100_000;

/// The exit code of a child that may not be traced.
const UNTRACED: i32 = 77;

/// The number of instructions that `probe(word)` executes, including its return, in a child with a
/// copy of this memory. `None` if this process may not trace its children.
pub(crate) fn executed(probe: Probe, word: *mut u32) -> Option<usize> {
    // SAFETY: the child calls only `ptrace`, `raise`, the probe and `_exit`: none of them needs a
    // lock that another thread of this process may have held.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            let nothing = ptr::null_mut::<libc::c_void>();
            // SAFETY: as explained at the fork. The caller's word is a lock in the right state.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) != 0 {
                    libc::_exit(UNTRACED);
                }
                libc::raise(libc::SIGSTOP);
                probe(word);
                libc::_exit(0);
            }
        }
        pid => {
            let child = Child(pid);
            child.wait().then(|| {
                let entry = probe as usize as u64;
                child.steps_until(entry);
                let back = child.peek(child.registers().rsp);
                child.steps_until(back)
            })
        }
    }
}

/// A traced child, ended and collected when it goes out of scope.
struct Child(libc::pid_t);

impl Child {
    /// Waits until the child has stopped. Returns false if it may not be traced.
    fn wait(&self) -> bool {
        let mut status = 0;
        // SAFETY: `status` is valid to write to; the child is ours.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(waited, self.0, "waitpid: {}", io::Error::last_os_error());
        let refused = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == UNTRACED;
        assert!(refused || libc::WIFSTOPPED(status), "the child ended: {status:#x}");
        !refused
    }

    /// Steps until the next instruction is the one at `address`. Returns the number of steps.
    fn steps_until(&self, address: u64) -> usize {
        let nothing = ptr::null_mut::<libc::c_void>();
        for steps in 0..STEPS_MAX {
            if self.registers().rip == address {
                return steps;
            }
            // SAFETY: the child is stopped and traced by this thread; no signal is delivered.
            let stepped =
                unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.0, nothing, nothing) };
            assert_eq!(stepped, 0, "PTRACE_SINGLESTEP: {}", io::Error::last_os_error());
            assert!(self.wait(), "the child ended");
        }
        panic!("no step of {STEPS_MAX} reached {address:#x}");
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: the structure holds only numbers, for which all-zero bytes are valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: the child is stopped and traced; `registers` is valid to write to.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, nothing, &raw mut registers) };
        assert_eq!(got, 0, "PTRACE_GETREGS: {}", io::Error::last_os_error());
        registers
    }

    /// The 8 bytes at an address in the child.
    fn peek(&self, address: u64) -> u64 {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: the child is stopped and traced; the kernel checks the address.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, address, nothing) };
        word as u64
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet collected; otherwise both calls do nothing.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}
