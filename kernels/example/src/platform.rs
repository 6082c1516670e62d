//! The platform: what the locks require of the world (contract: `overlock::platform`).

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::platform::{Bucket, Cpu, Platform, ReadModifyWrite, Slot};

use crate::arch;

/// The CPUs of this kernel.
#[derive(Clone, Copy, Debug)]
pub struct Cores;

static SLOTS: [Slot<AtomicU32>; arch::MAX_CPUS] = [const { Slot::new() }; arch::MAX_CPUS];
/// 16 entries per bucket, four for each CPU. A CPU that finds none free naps.
static BUCKETS: [Bucket<AtomicU32>; arch::MAX_CPUS / 4] =
    [const { Bucket::new() }; arch::MAX_CPUS / 4];

// SAFETY: P0: the cells and the fence are those of `core`. P1 and P3: `halt_while`. P2: any
// interrupt. P4: an interrupt for which no CPU waits does nothing. P6: the pause instruction. P7,
// P8: numbers and tables are fixed. P9: one counter. P10: waiting is never off. P11: the
// default.
unsafe impl Platform for Cores {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;
    const WAITS: bool = true;

    fn cpu() -> Option<Cpu> {
        Cpu::new(arch::cpu_number())
    }
    fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
        &SLOTS[cpu.index()]
    }
    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &BUCKETS
    }
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        // This kernel has no timer, so a wait with a deadline spins.
        if deadline_ns.is_none() && !arch::in_nmi() {
            arch::halt_while(word, expected);
        }
    }
    fn kick(_word: *const AtomicU32, cpu: Cpu) {
        arch::interrupt(cpu.index());
    }
    fn now_ns() -> u64 {
        arch::now_ns()
    }
}
