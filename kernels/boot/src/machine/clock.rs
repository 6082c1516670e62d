//! The time stamp counter as a clock in nanoseconds.
//!
//! `ns = (ticks * scale) >> 32`. The rate is measured against the 8254 timer, or comes from Xen.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::io::{inb, outb};

/// Nanoseconds a tick, times 2^32; 1 ns before it is known.
static SCALE: AtomicU64 = AtomicU64::new(1 << 32);
static ORIGIN: AtomicU64 = AtomicU64::new(0);

/// The frequency of the 8254's counters (the PC's 14.31818 MHz over 12).
const PIT_HZ: u64 = 1_193_182;
const CALIBRATION_NS: u64 = 10_000_000;

/// The time stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it, and neither this kernel nor Xen forbids it.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the clock was set, read after all loads before it. (On older processors of AMD
/// `lfence` waits for them only if a bit of the MSR DE_CFG is set, which this kernel does not do.)
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: every x86-64 processor has it, and it changes nothing.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    let since = ticks().wrapping_sub(ORIGIN.load(Relaxed));
    ((u128::from(since) * u128::from(SCALE.load(Relaxed))) >> 32) as u64
}

/// Sets the clock to zero at `origin` ticks, and to `scale` nanoseconds a tick, times 2^32.
pub fn set(scale: u64, origin: u64) {
    SCALE.store(scale, Relaxed);
    ORIGIN.store(origin, Relaxed);
}

#[inline]
pub fn spin_ns(ns: u64) {
    if ns == 0 {
        return;
    }
    let end = now_ns() + ns;
    while now_ns() < end {}
}

/// Measures the rate for 10 ms with counter 2 of the 8254, which needs no interrupt.
pub fn calibrate() {
    let count = (PIT_HZ * CALIBRATION_NS / 1_000_000_000) as u16;
    let [low, high] = count.to_le_bytes();
    // SAFETY: the 8254 and its gate, which have no access to memory.
    let (first, last) = unsafe {
        outb(0x61, inb(0x61) & !2 | 1);
        // Counter 2, both bytes, mode 0: its output rises when the count is over.
        outb(0x43, 0b1011_0000);
        outb(0x42, low);
        outb(0x42, high);
        let first = ticks();
        while inb(0x61) & 1 << 5 == 0 {
            core::hint::spin_loop();
        }
        (first, ticks())
    };
    set(((u128::from(CALIBRATION_NS) << 32) / u128::from(last - first)) as u64, last);
}
