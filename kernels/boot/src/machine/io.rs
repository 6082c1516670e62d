//! Ports, model-specific registers, and the interrupt flag.

use core::arch::asm;

/// The interrupt flag in RFLAGS.
const IF: u64 = 1 << 9;

/// Writes a byte to a port.
///
/// # Safety
/// The device behind the port does nothing to memory that is in use.
pub unsafe fn outb(port: u16, value: u8) {
    // SAFETY: the caller's word.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Reads a byte from a port.
///
/// # Safety
/// As for [`outb`].
pub unsafe fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's word.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}

/// Writes a model-specific register.
///
/// # Safety
/// The register exists, and the value does nothing to memory that is in use.
pub unsafe fn wrmsr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller's word.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack));
    }
}

pub fn interrupts_enabled() -> bool {
    let flags: u64;
    // SAFETY: pushes and pops one word; the compiler knows that the stack is used.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & IF != 0
}

/// Disables interrupts. Memory accesses stay on their side of it.
pub fn disable_interrupts() {
    // SAFETY: this kernel runs at privilege level 0 wherever it has no hypervisor's interface.
    unsafe { asm!("cli", options(nostack)) };
}

/// Enables interrupts.
///
/// # Safety
/// The handlers are in place.
pub unsafe fn enable_interrupts() {
    // SAFETY: the caller's word.
    unsafe { asm!("sti", options(nostack)) };
}

/// Runs `work` with interrupts disabled, and then restores the interrupt flag.
pub fn without_interrupts<R>(work: impl FnOnce() -> R) -> R {
    let enabled = interrupts_enabled();
    disable_interrupts();
    let result = work();
    if enabled {
        // SAFETY: they were enabled before.
        unsafe { enable_interrupts() };
    }
    result
}

/// Resets the machine as a bug would: by a triple fault.
pub fn reset() -> ! {
    let none = [0_u8; 10];
    // SAFETY: an empty table of handlers, on purpose: nothing comes after the fault.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &raw const none, options(noreturn)) }
}
