// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world of a vCPU: its record is at the GS base, a hypercall is a port access.

use std::arch::asm;

use overlock_bench::Verbs;

use crate::lab::guest::abi::{Call, PM_TIMER_PORT, VcpuRecord};
use crate::lab::guest::door::{self, CallNumber, Door, Record, verbs};

/// A vCPU under KVM that calls its host through ports.
///
/// Its verbs work only in a guest. Called from anywhere else they fault at once: the GS base of a
/// Linux program is zero, where nothing is ever mapped.
#[derive(Clone, Copy, Debug)]
pub struct Ports;

// SAFETY: the engine sets the GS base of every vCPU to its record, whose first word is its address.
unsafe impl Door for Ports {
    #[inline(always)]
    fn record() -> Record {
        let own: *const VcpuRecord;
        // SAFETY: reads one word; the record outlives the vCPU, and so every caller.
        let record = unsafe {
            asm!("mov {}, gs:[0]", out(reg) own, options(pure, readonly, nostack, preserves_flags));
            &*own
        };
        Record(record)
    }

    fn call(CallNumber(call): CallNumber, arguments: [u64; 2]) {
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
}

impl Verbs for Ports {
    verbs!();

    fn pm_timer() -> u32 {
        let value;
        // SAFETY: reading the port has no effect on memory.
        unsafe { asm!("in eax, dx", in("dx") PM_TIMER_PORT, out("eax") value, options(nostack)) };
        value
    }
}
