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

use super::stepped::{Stepped, Stop};

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
            let child = Stepped::child(pid);
            let executed = match child.wait() {
                Stop::Signal(libc::SIGSTOP) => {
                    steps_until(&child, probe as usize as u64);
                    Some(steps_until(&child, child.peek(child.registers().rsp)))
                }
                Stop::Gone => None,
                stop => panic!("the child: {stop:?}"),
            };
            // SAFETY: the child is ours; if it is gone and collected, the calls do nothing.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, ptr::null_mut(), 0);
            }
            executed
        }
    }
}

/// Steps until the next instruction is the one at `address`. Returns the number of steps.
fn steps_until(child: &Stepped, address: u64) -> usize {
    let steps = (0..STEPS_MAX).find(|_| {
        let is_there = child.at() == address;
        assert!(is_there || child.step() == Stop::Step, "the child ended");
        is_there
    });
    steps.unwrap_or_else(|| panic!("no step of {STEPS_MAX} reached {address:#x}"))
}
