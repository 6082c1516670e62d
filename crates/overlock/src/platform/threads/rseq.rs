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
//! kernel and publishes where the registered record is (`rseq/armed.rs`). Elsewhere, under a kernel
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

use core::sync::atomic::{AtomicU16, AtomicU32};

pub(super) use armed::{forbid, is_armed};
pub(super) use assembly::arm;

use crate::platform::CheapRelease;

mod armed;
#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable))
))]
mod assembly;
#[cfg(not(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable))
)))]
#[path = "rseq/portable.rs"]
mod assembly;

/// Releases by restartable sequences.
#[derive(Clone, Copy, Debug)]
pub struct Sequences;

// SAFETY: each operation of `assembly.rs` says at its instructions why it does what it returns
// (P0). The module documentation argues P11.
unsafe impl CheapRelease<AtomicU32, AtomicU16> for Sequences {
    const EXISTS: bool = assembly::BUILT;

    #[inline(always)]
    fn set_lowest_bit(word: &AtomicU32) -> bool {
        assembly::set_lowest_bit(word)
    }

    #[inline(always)]
    fn clear_low_byte(word: &AtomicU32) -> bool {
        assembly::clear_low_byte(word)
    }

    #[inline(always)]
    fn add_half(cell: &AtomicU16, n: u16, unless: u16) -> bool {
        assembly::add_half(cell, n, unless)
    }

    fn membarrier() -> bool {
        // This loads `ARMED` after its caller's locked change. A release whose sequence missed that
        // change had seen `ARMED` set before the change, so this load sees it set too.
        !is_armed() || assembly::cut_off()
    }
}
