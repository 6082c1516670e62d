//! What the locks need from a kernel, in a few functions.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};

/// The most CPUs that this kernel supports: the size of all tables.
pub const MAX_CPUS: usize = 64;

/// The number of this CPU, from its own segment.
pub fn cpu_number() -> usize {
    let number: usize;
    // SAFETY: this kernel keeps the number at the start of the segment that GS points to.
    unsafe { asm!("mov {}, gs:[0]", out(reg) number, options(nostack, preserves_flags)) };
    number
}

/// A clock in nanoseconds, read after all loads before it. A real kernel scales the counter; here a
/// tick counts as a nanosecond.
pub fn now_ns() -> u64 {
    // SAFETY: every x86-64 processor has this counter, and the fence.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
        core::arch::x86_64::_rdtsc()
    }
}

/// Whether a non-maskable interrupt is being handled here. This kernel has none.
pub fn in_nmi() -> bool {
    false
}

/// Switches interrupts off, and returns the flags to pass to [`restore`].
pub fn interrupts_off() -> u64 {
    let flags;
    // SAFETY: the kernel runs at privilege level 0.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
    flags
}

/// Restores the interrupt state in `flags`.
pub fn restore(flags: u64) {
    // SAFETY: the flags were in force before.
    unsafe { asm!("push {}", "popfq", in(reg) flags) };
}

/// Halts until an interrupt, unless `word` has changed. The load and the halt can't be separated,
/// because interrupts are off until the `hlt` itself.
pub fn halt_while(word: &AtomicU32, expected: u32) {
    let flags = interrupts_off();
    let enabled = flags & 1 << 9 != 0;
    // If interrupts were off, nothing would end the halt; the caller then spins.
    if enabled && word.load(Acquire) == expected {
        // SAFETY: the handlers are in place. `sti` keeps interrupts off for one more instruction.
        unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
    }
    restore(flags);
}

/// Interrupts another CPU, by a vector whose handler does nothing. A real kernel writes to its
/// APIC.
pub fn interrupt(_cpu: usize) {}

/// Reads the host's clock, in nanoseconds since 1970. A real kernel makes a hypercall, or reads a
/// device.
pub fn read_hosts_clock() -> u64 {
    now_ns()
}
