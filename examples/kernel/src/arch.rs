// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the locks need of a kernel, in five functions.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};

/// The most CPUs of this kernel: what all tables are as large as.
pub const MAX_CPUS: usize = 64;

/// The number of this CPU, from its own segment.
pub fn cpu_number() -> usize {
    let number: usize;
    // SAFETY: this kernel keeps the number at the beginning of what GS is based on.
    unsafe { asm!("mov {}, gs:[0]", out(reg) number, options(nostack, preserves_flags)) };
    number
}

/// A clock in nanoseconds. A kernel scales it; here a tick is taken for one.
pub fn now_ns() -> u64 {
    // SAFETY: every x86-64 processor has this counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether a non-maskable interrupt is being handled here. This kernel has none.
pub fn in_nmi() -> bool {
    false
}

/// Switches interrupts off, and returns what to give to [`restore`].
pub fn interrupts_off() -> u64 {
    let flags;
    // SAFETY: privilege level 0.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
    flags
}

/// Has interrupts as they were.
pub fn restore(flags: u64) {
    // SAFETY: flags that were in force before.
    unsafe { asm!("push {}", "popfq", in(reg) flags) };
}

/// Halts until an interrupt, unless `word` has changed: the look and the halt can't be parted, for
/// interrupts are off until the very `hlt`.
pub fn halt_while(word: &AtomicU32, expected: u32) {
    let flags = interrupts_off();
    let enabled = flags & 1 << 9 != 0;
    // Where interrupts were off nothing would end the halt: then the caller spins.
    if enabled && word.load(Acquire) == expected {
        // SAFETY: the handlers are in place. `sti` keeps interrupts off for one instruction more.
        unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
    }
    restore(flags);
}

/// Interrupts another CPU, by a vector whose handler does nothing. A kernel writes to its APIC.
pub fn interrupt(_cpu: usize) {}
