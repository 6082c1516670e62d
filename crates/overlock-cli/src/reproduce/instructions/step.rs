// SPDX-License-Identifier: MIT OR Apache-2.0
//! What does a call execute? A forked child makes it, one step at a time.
//!
//! The child stops itself, is stepped to the first instruction of the function, and from there to
//! where that returns. Before each step its next instruction is looked at, for the bytes that make
//! it a locked one.

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io::Error;
use std::ptr::null_mut;

/// More steps than it takes to reach or to execute any call.
const STEPS_MAX: usize = 100_000;

/// The exit status of a child that may not be traced.
const UNTRACED: i32 = 77;
/// The exit status of a child that could not be prepared.
const UNPREPARED: i32 = 78;

/// What a call executes, its return included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Executed {
    pub(super) instructions: u32,
    /// How many of them lock the bus or the cache line: read-modify-writes that are atomic.
    pub(super) locked: u32,
}

/// A function of one argument that shares it.
pub(super) type Call<T> = unsafe extern "C" fn(&T);

/// Counts what `call(of)` executes in a child that has done `prepare` before, which says whether it
/// could.
///
/// # Errors
/// The process may not trace its children, or `prepare` could not do its work.
///
/// # Safety
/// After `prepare` the child may call `call(of)`. This process has one thread, or else neither of
/// them needs what another may have held when it was forked.
pub(super) unsafe fn executed<T>(
    call: Call<T>,
    of: &T,
    prepare: impl FnOnce() -> bool,
) -> Result<Executed> {
    // The same address for both of us, whatever the optimiser would like.
    let call = black_box(call);
    // SAFETY: the child does what the caller vouches for, and nothing else but system calls.
    match unsafe { libc::fork() } {
        -1 => bail!("fork: {}", Error::last_os_error()),
        0 => {
            let nothing = null_mut::<libc::c_void>();
            let ready = prepare();
            // SAFETY: asks to be traced, stops, calls as the caller allows, and ends.
            unsafe {
                if !ready {
                    libc::_exit(UNPREPARED);
                }
                if libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) != 0 {
                    libc::_exit(UNTRACED);
                }
                libc::raise(libc::SIGSTOP);
                call(of);
                libc::_exit(0);
            }
        }
        pid => {
            let child = Child(pid);
            child.wait()?;
            child.steps_until(call as usize as u64)?;
            let back = child.peek(child.registers()?.rsp)?;
            child.steps_until(back)
        }
    }
}

/// A traced child, ended and collected when it goes out of scope.
struct Child(libc::pid_t);

impl Child {
    /// Waits until the child has stopped.
    fn wait(&self) -> Result<()> {
        let mut status = 0;
        // SAFETY: `status` is valid to write to; the child is ours.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        ensure!(waited == self.0, "waitpid: {}", Error::last_os_error());
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        ensure!(code != Some(UNTRACED), "a process may not trace its children here");
        ensure!(code != Some(UNPREPARED), "the lock could not be prepared");
        ensure!(libc::WIFSTOPPED(status), "the child that calls the lock ended: {status:#x}");
        let signal = libc::WSTOPSIG(status);
        // Nothing else is for it: a fault, say, would come again at each step.
        ensure!(
            [libc::SIGSTOP, libc::SIGTRAP].contains(&signal),
            "the child that calls the lock was sent signal {signal}"
        );
        Ok(())
    }

    /// Steps until the next instruction is the one at `address`. Returns what was executed.
    fn steps_until(&self, address: u64) -> Result<Executed> {
        let nothing = null_mut::<libc::c_void>();
        let mut executed = Executed::default();
        for _ in 0..STEPS_MAX {
            let at = self.registers()?.rip;
            if at == address {
                return Ok(executed);
            }
            let bytes = [self.peek(at)?.to_le_bytes(), self.peek(at + 8)?.to_le_bytes()];
            executed.instructions += 1;
            executed.locked += u32::from(is_locked(bytes.as_flattened()));
            // SAFETY: the child is stopped and traced by this thread; no signal is delivered.
            let stepped =
                unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.0, nothing, nothing) };
            ensure!(stepped == 0, "PTRACE_SINGLESTEP: {}", Error::last_os_error());
            self.wait()?;
        }
        bail!("no step of {STEPS_MAX} reached {address:#x}")
    }

    fn registers(&self) -> Result<libc::user_regs_struct> {
        // SAFETY: numbers, for which all-zero bytes are a value.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let nothing = null_mut::<libc::c_void>();
        // SAFETY: the child is stopped and traced; `registers` is valid to write to.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, nothing, &raw mut registers) };
        ensure!(got == 0, "PTRACE_GETREGS: {}", Error::last_os_error());
        Ok(registers)
    }

    /// The 8 bytes at an address of the child's.
    fn peek(&self, address: u64) -> Result<u64> {
        let nothing = null_mut::<libc::c_void>();
        // SAFETY: libc's own errno of this thread, by which alone a failure differs from a value.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: the child is stopped and traced; the kernel checks the address.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, address, nothing) };
        let error = Error::last_os_error();
        ensure!(error.raw_os_error() == Some(0), "PTRACE_PEEKDATA: {error}");
        Ok(word.cast_unsigned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet collected, or else both calls do nothing.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, null_mut(), 0);
        }
    }
}

/// Whether the instruction that begins with these bytes is a locked one: by its prefix, or because
/// it is an exchange with memory.
///
/// Source: Intel, *Software Developer's Manual*, volume 2, sections 2.1.1 (prefixes) and 2.2.1
/// (REX), "LOCK" and "XCHG".
fn is_locked(bytes: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    const OTHERS: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
    let prefixes = bytes.iter().take_while(|&&byte| byte == LOCK || OTHERS.contains(&byte)).count();
    let (prefixes, rest) = bytes.split_at(prefixes);
    let rest = if matches!(rest, [0x40..=0x4f, ..]) { &rest[1..] } else { rest };
    prefixes.contains(&LOCK) || matches!(rest, [0x86 | 0x87, operands, ..] if operands >> 6 != 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    std::arch::global_asm!(
        ".globl overlock_test_calls",
        "overlock_test_calls:",
        "nop",
        "lock inc dword ptr [rdi]",
        "mov ecx, 3",
        "2: dec ecx",
        "jne 2b",
        "xchg eax, dword ptr [rdi]",
        "ret",
    );

    unsafe extern "C" {
        fn overlock_test_calls(word: &u32);
    }

    #[test]
    fn every_instruction_of_a_call_is_counted_and_every_locked_one() {
        // SAFETY: assembly that changes the child's copy of the word, and takes nothing.
        let seen = unsafe { executed(overlock_test_calls, &black_box(0), || true) };
        match seen {
            Ok(seen) => assert_eq!(seen, Executed { instructions: 11, locked: 2 }),
            Err(why) => {
                assert!(why.to_string().contains("may not trace"), "{why:#}");
                crate::output::complain(&format!("SKIPPED: {why:#}"));
            }
        }
    }

    #[test]
    fn a_call_that_faults_is_no_count() {
        static CONSTANT: u32 = 0;
        // SAFETY: as above, but the word can't be written: the child ends there.
        let seen = unsafe { executed(overlock_test_calls, &CONSTANT, || true) };
        let why = seen.unwrap_err().to_string();
        assert!(why.contains("signal 11") || why.contains("may not trace"), "{why}");
    }

    #[test]
    fn a_child_that_is_not_ready_is_no_count() {
        // SAFETY: as above; it is not called.
        let seen = unsafe { executed(overlock_test_calls, &0, || false) };
        assert!(seen.unwrap_err().to_string().contains("could not be prepared"));
    }

    #[test]
    fn locked_instructions_are_known_by_their_bytes() {
        for (bytes, locked) in [
            (&[0xf0, 0x0f, 0xb1, 0x0f][..], true), // lock cmpxchg %ecx,(%rdi)
            (&[0x66, 0xf0, 0x0f, 0xc1, 0x07], true), // lock xadd %ax,(%rdi)
            (&[0xf0, 0x66, 0x0f, 0xc1, 0x07], true), // the same
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], true), // lock xadd %rax,(%rdi)
            (&[0x87, 0x07], true),                 // xchg %eax,(%rdi)
            (&[0x48, 0x87, 0x07], true),           // xchg %rax,(%rdi)
            (&[0x64, 0x87, 0x04, 0x25], true),     // xchg %eax,%fs:..
            (&[0x87, 0xd8], false),                // xchg %ebx,%eax
            (&[0x66, 0x90], false),                // a long nop
            (&[0x8b, 0x07, 0xf0, 0x0f, 0xb1], false), // mov (%rdi),%eax; lock ..
            (&[0xc3, 0xf0], false),                // ret
        ] {
            assert_eq!(is_locked(bytes), locked, "{bytes:x?}");
        }
    }
}
