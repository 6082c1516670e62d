//! What a vCPU does with its record and its host: both the verbs of programs and the platform of
//! locks are made of this.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::abi::{Call, VcpuRecord};

#[inline(always)]
pub(super) fn record() -> &'static VcpuRecord {
    let own: *const VcpuRecord;
    // SAFETY: the engine sets the GS base of every vCPU to its record, whose first word is its
    // address; the record outlives the vCPU, and so every caller.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) own, options(pure, readonly, nostack, preserves_flags));
        &*own
    }
}

pub(crate) fn call(call: Call, arguments: [u64; 2]) {
    // The arguments stay in registers, where an interrupt that comes just before cannot damage
    // them.
    // SAFETY: the host's answer changes memory only through atomics.
    unsafe {
        asm!(
            "out dx, al",
            in("dx") call as u16,
            in("al") 0_u8,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            options(nostack),
        );
    }
}

/// Halts until a kick or the deadline, unless the word has changed.
pub(super) fn halt_unless(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
    // The host remembers a kick that comes between this load and the halt.
    if word.load(Relaxed) == expected {
        call(Call::Halt, [deadline_ns.unwrap_or(0), 0]);
    }
}
