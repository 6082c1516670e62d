//! Restartable sequences: a release by comparison and store, without an atomic read-modify-write
//! (P11).
//!
//! A locked read-modify-write costs two to three times as much as the rest of an uncontended
//! release. It is needed only when another CPU changes the word between the look and the store.
//! Linux offers to move that cost to the CPU that makes the change:
//!
//! ```text
//!   releases                                 halts
//!   rseq: S0  sequence = this
//!         S1  no queue?                      A   word |= HALTED      (locked)
//!         S2  low byte = 0  (commit)         B   membarrier(RSEQ)
//!                                            C   still held? halt : take it
//! ```
//!
//! A *restartable sequence* (rseq(2), Linux 4.18) is a range of instructions, the last of which is
//! a store. When the kernel interrupts a thread within the range, for another thread, a signal or a
//! barrier, it makes the thread resume at the abort address instead of the next instruction. B
//! (`MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ`, membarrier(2), Linux 5.10) interrupts all running
//! threads of the process and is a full fence on each. So by the time it returns, a sequence that
//! was under way has either stored, and C sees that, or been cut off, and looks again; and one that
//! began later sees A.
//!
//! When its sequence has been cut off, a release falls back to the locked access. This is rare, and
//! a debugger that single-steps through the sequence would otherwise never get out.
//!
//! # Where
//!
//! On x86-64 with the GNU C library 2.35 or later, which registers every thread it starts with the
//! kernel and publishes where the registered record is. Elsewhere (`portable.rs`), under a kernel
//! that lacks either call, under `valgrind`, and where `GLIBC_TUNABLES=glibc.pthread.rseq=0` is
//! set, nothing is armed and all releases are locked. A locked instruction waits for a store of
//! another width, so the queue locks are then taken by a compare-exchange of the whole word.
//!
//! # Limits
//!
//! * A release notices if the kernel has refused its thread's record, and then uses the locked
//!   access.
//! * A thread that the C library did not start (`clone` with `CLONE_VM`), and the child of `vfork`
//!   until it executes another program, use the record of their creator, but the kernel does not
//!   watch them: it does not cut their sequences off. Such a thread must not release a lock that
//!   threads of the process use, as POSIX says of `vfork`.
//! * If a sandbox that is set up later makes `membarrier` fail, queue heads nap and look again. If
//!   it kills a caller of `membarrier`, it kills the first waiter that halts. Programs with such
//!   sandboxes need the tunable above.
//! * A thread sanitizer, like any tool that watches the program's own atomics, does not see
//!   accesses in assembly. With `RUSTFLAGS=--cfg=overlock_portable`, no access is in assembly.
//!
//! # Sources
//!
//! rseq(2) and `include/uapi/linux/rseq.h` (Linux 6.x: the layout of `struct rseq` and `struct
//! rseq_cs`); the signature in the GNU C library's `sysdeps/unix/sysv/linux/x86/bits/rseq.h`
//! (2.35); M. Desnoyers, "Restartable sequences", LWN 2018, for the technique. D. Dice, H. Huang,
//! M. Yang, "Asymmetric Dekker Synchronization", 2001, for the idea of a fence on the rare side
//! only.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU16, AtomicU32};

use super::syscall::syscall;
use crate::platform::CheapRelease;

/// The offset in `struct rseq` of `rseq_cs`, the address of the sequence that a thread is in.
const RSEQ_CS: usize = 8;
/// The offset of `cpu_id`, the thread's processor, which is negative if the kernel does not
/// watch the thread.
const CPU_ID: usize = 4;

/// The offset of a thread's `struct rseq` from its thread pointer; zero if sequences are not armed.
static ARMED: AtomicIsize = AtomicIsize::new(0);

/// Whether sequences must stay unarmed.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Keeps sequences unarmed from now on.
pub(super) fn forbid() {
    FORBIDDEN.store(true, Relaxed);
}

/// Whether this process uses restartable sequences.
pub(super) fn is_armed() -> bool {
    ARMED.load(Relaxed) != 0
}

const CMD_QUERY: libc::c_int = 0;
/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ` and its registration.
const CMD_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
const CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 8;

fn membarrier(command: libc::c_int) -> libc::c_long {
    let args = [command as usize, 0, 0, 0, 0, 0];
    // SAFETY: no memory is passed.
    unsafe { syscall(libc::SYS_membarrier, args) as libc::c_long }
}

/// Cuts all sequences off, by the given system call. The call fails if the process is not
/// registered, because it was restored from a checkpoint; the process is then registered again.
fn cut_off_by(membarrier: &mut impl FnMut(libc::c_int) -> libc::c_long) -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
        || membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
            && membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
}

/// Arms the sequences when the program, or the shared library that contains this code, is
/// loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = arm;

/// Arms the sequences, if that is possible. This is safe at any time: releases are locked until
/// they have seen `ARMED`; see [`Sequences::membarrier`].
pub(super) extern "C" fn arm() {
    if is_armed() || FORBIDDEN.load(Relaxed) {
        return;
    }
    let find = |name: &core::ffi::CStr| {
        // SAFETY: the name is valid, and the call searches all loaded objects for the symbol.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        // SAFETY: this discards the resulting error message, which the program might take for
        // its own.
        unsafe { libc::dlerror() };
        return;
    }
    // SAFETY: the C library's constants of these names: a `ptrdiff_t` and an `unsigned int`.
    let (offset, size) =
        unsafe { (*offset.cast::<libc::ptrdiff_t>(), *size.cast::<libc::c_uint>()) };
    // A size of zero means that the kernel has refused, or that the user has forbidden it. Then
    // a filter for system calls need not allow `membarrier`.
    if size == 0 || offset == 0 {
        return;
    }
    let query = membarrier(CMD_QUERY);
    let knows = query > 0 && query & libc::c_long::from(CMD_PRIVATE_EXPEDITED_RSEQ) != 0;
    if knows && membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0 {
        ARMED.store(offset, Relaxed);
    }
}

/// The code of one sequence. `$look` loads the cell and jumps to `6f` if the cell must not be
/// changed; `$store` stores. Both may use `scratch`. Makes the function return false if there
/// are no sequences, the kernel does not watch this thread, the sequence is cut off, or the
/// cell must not be changed.
macro_rules! sequence {
    ([$($look:literal),*], $store:literal, $cell:ident, $($name:ident = $value:expr),*) => {{
        let rseq = ARMED.load(Relaxed);
        if rseq == 0 {
            return false;
        }
        // SAFETY: `rseq` is the offset at which the C library has registered this thread's
        // `struct rseq` with the kernel; the thread may set its field. The code from 2 to 3 is
        // a sequence by the rules of rseq(2): it loads before it stores, its only store is its
        // last instruction, it calls nothing, and the abort address follows the signature. It
        // accesses the cell, which is live, as a relaxed load and a store of a part of it
        // would; on x86-64 such a store is a Release. The descriptor that the field points to
        // is part of this code. The field is cleared after the sequence, because this code may
        // be unloaded.
        unsafe {
            core::arch::asm!(
                // The descriptor: version, flags, start, length, abort address.
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "5: .long 0, 0",
                ".quad 2f, 3f - 2f, 4f",
                ".popsection",
                "lea {scratch}, [rip + 5b]",
                "mov qword ptr fs:[{rseq} + {rseq_cs}], {scratch}",
                "2:",
                "cmp dword ptr fs:[{rseq} + {cpu_id}], 0",
                "jl 6f",
                $($look,)*
                $store,
                "3:",
                "mov qword ptr fs:[{rseq} + {rseq_cs}], 0",
                // The signature is part of an instruction that can't be executed (`ud1`).
                ".pushsection .text.overlock_abort, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "4:",
                "6: mov qword ptr fs:[{rseq} + {rseq_cs}], 0",
                "jmp {cut}",
                ".popsection",
                cell = in(reg) core::ptr::from_ref($cell),
                $($name = in(reg) $value,)*
                rseq = in(reg) rseq,
                scratch = out(reg) _,
                rseq_cs = const RSEQ_CS,
                cpu_id = const CPU_ID,
                cut = label { return false },
                options(nostack),
            );
        }
        true
    }};
}

/// Releases by restartable sequences.
#[derive(Clone, Copy, Debug)]
pub struct Sequences;

// SAFETY: each operation says at its instructions why it does what it returns (P0). The module
// documentation argues P11.
unsafe impl CheapRelease<AtomicU32, AtomicU16> for Sequences {
    const EXISTS: bool = true;

    #[inline(always)]
    fn set_lowest_bit(cell: &AtomicU32) -> bool {
        if ARMED.load(Relaxed) == 0 {
            // The release will be a locked access to the whole word, so this must be one, too.
            // ORDERING: Acquire, for the caller (O1).
            return cell.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        }
        // ORDERING: a locked instruction is a full fence, so the next release looks at the upper
        // half after it (Q7). Both blocks of assembly may access memory, since neither has `nomem`,
        // so the compiler keeps them in order.
        // SAFETY: the cell is live; the access is atomic and within it. If the lowest byte is zero,
        // it changes the cell as `fetch_or(1, AcqRel)` would; otherwise it changes nothing.
        unsafe {
            core::arch::asm!(
                // A locked instruction that fails costs as much as one that succeeds, and where
                // there is a queue it mostly would. The load takes its value from the store of the
                // last release, which is as wide.
                "cmp byte ptr [{cell}], 0",
                "jne {refused}",
                "lock cmpxchg byte ptr [{cell}], {one}",
                "jne {refused}",
                cell = in(reg) core::ptr::from_ref(cell),
                one = in(reg_byte) 1_u8,
                inout("al") 0_u8 => _,
                refused = label { return false },
                options(nostack),
            );
        }
        true
    }

    #[inline(always)]
    fn clear_low_byte(cell: &AtomicU32) -> bool {
        sequence!(["cmp word ptr [{cell} + 2], 0", "jne 6f"], "mov byte ptr [{cell}], 0", cell,)
    }

    #[inline(always)]
    fn add_half(cell: &AtomicU16, n: u16, unless: u16) -> bool {
        sequence!(
            [
                "movzx {scratch:e}, word ptr [{cell}]",
                "test {scratch:x}, {unless:x}",
                "jne 6f",
                "add {scratch:e}, {n:e}"
            ],
            "mov word ptr [{cell}], {scratch:x}",
            cell,
            n = n,
            unless = unless
        )
    }

    fn membarrier() -> bool {
        // This loads `ARMED` after its caller's locked change. A release whose sequence missed that
        // change had seen `ARMED` set before the change, so this load sees it set too.
        !is_armed() || cut_off_by(&mut membarrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with which the process may be `registered`; a `strict` one refuses to register
    /// it.
    fn is_cut_off(mut registered: bool, strict: bool) -> bool {
        cut_off_by(&mut |command| match command {
            CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ if strict => -1,
            CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ => {
                registered = true;
                0
            }
            _ if registered => 0,
            _ => -1,
        })
    }

    #[test]
    fn a_process_that_lost_its_registration_is_registered_again() {
        assert!(is_cut_off(true, true));
        assert!(is_cut_off(false, false));
        assert!(!is_cut_off(false, true));
    }
}
