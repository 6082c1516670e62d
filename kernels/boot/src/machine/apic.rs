//! The local APIC of each CPU: interrupts between CPUs, and a timer.
//!
//! Sources: Intel, *Software Developer's Manual*, volume 3A, chapter "Advanced Programmable
//! Interrupt Controller".

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::clock;
use super::io::{self, wrmsr};
use crate::cpus;

/// The vector of a kick. Its class of priority is the highest: it alone comes in where the task
/// priority shuts out the rest.
pub const KICK: u8 = 0xf1;
/// The vector of a wait's deadline: of the same class.
pub const DEADLINE: u8 = 0xf0;
/// The vector of the timer's tick.
pub const TICK: u8 = 0x40;
/// The vector by which Xen says that there are events.
pub const EVENT: u8 = 0x50;
/// The vector that arrives in place of an interrupt that was withdrawn.
pub const SPURIOUS: u8 = 0xff;

const BASE: usize = 0xfee0_0000;
const ID: usize = 0x20;
const PROCESSOR_PRIORITY: usize = 0xa0;
const EOI: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
/// Eight registers of 32 vectors each, 16 bytes apart.
const REQUESTED: usize = 0x200;
const COMMAND: usize = 0x300;
const COMMAND_TO: usize = 0x310;
const LVT_TIMER: usize = 0x320;
const INITIAL_COUNT: usize = 0x380;
const CURRENT_COUNT: usize = 0x390;
const DIVIDE: usize = 0x3e0;

const MASKED: u32 = 1 << 16;
/// The last command has not been delivered yet.
const SENDING: u32 = 1 << 12;
const ASSERT: u32 = 1 << 14;
const ALL_OTHERS: u32 = 3 << 18;
const NMI: u32 = 4 << 8;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const DIVIDE_BY_16: u32 = 3;
const IA32_APIC_BASE: u32 = 0x1b;
const ENABLED: u64 = 1 << 11;

/// Counts of the timer in a millisecond.
static COUNTS_PER_MS: AtomicU32 = AtomicU32::new(0);

fn read(register: usize) -> u32 {
    // SAFETY: a register of the local APIC, which is mapped to itself.
    unsafe { core::ptr::with_exposed_provenance::<u32>(BASE + register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as above; the registers written here touch no memory but through handlers.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(BASE + register).write_volatile(value) };
}

pub fn enable() {
    // SAFETY: the default base, enabled.
    unsafe { wrmsr(IA32_APIC_BASE, BASE as u64 | ENABLED) };
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS));
    write(LVT_TIMER, MASKED);
    write(DIVIDE, DIVIDE_BY_16);
    cpus::this().apic.store(read(ID) >> 24, Relaxed);
}

/// Measures the timer against the clock, for all CPUs.
pub fn calibrate() {
    write(INITIAL_COUNT, u32::MAX);
    clock::spin_ns(2_000_000);
    COUNTS_PER_MS.store((u32::MAX - read(CURRENT_COUNT)) / 2, Relaxed);
    write(INITIAL_COUNT, 0);
}

/// Whether an interrupt is pending that only the interrupt flag holds back.
pub fn is_pending() -> bool {
    let class = read(PROCESSOR_PRIORITY) as usize >> 4;
    // Two classes of 16 vectors share a register.
    (class + 1..16).any(|class| read(REQUESTED + class / 2 * 16) >> (class % 2 * 16) & 0xffff != 0)
}

/// Ends the interrupt that is being handled.
pub fn end_of_interrupt() {
    write(EOI, 0);
}

/// Lets the timer tick every `us` microseconds, or not at all. Each tick arms the next at its end:
/// even a machine that is too slow for its ticks gets on with the work that they interrupt.
pub fn tick_every_us(us: Option<u32>) {
    let count = us.map_or(0, |us| counts(u64::from(us) * 1000));
    let me = cpus::this();
    me.tick_counts.store(count, Relaxed);
    me.ticking.store(us.is_some(), Relaxed);
    write(LVT_TIMER, u32::from(TICK) | if us.is_some() { 0 } else { MASKED });
    next_tick();
}

/// Arms the next tick of this CPU, if it has ticks.
pub(super) fn next_tick() {
    write(INITIAL_COUNT, cpus::this().tick_counts.load(Relaxed));
}

/// What the timer did before a deadline took it.
#[derive(Debug)]
pub struct Before {
    /// Counts to the next tick; 0 if there is none, or it is pending.
    left: u32,
    at_ns: u64,
}

/// Lets an interrupt come at `at_ns`, in which interrupts are off, and will be on during a halt if
/// they were `enabled`. Then a timer that ticks ends it anyway, within a tick.
pub fn end_at(at_ns: u64, enabled: bool) -> Option<Before> {
    let ticks = cpus::this().ticking.load(Relaxed);
    if ticks && enabled {
        return None;
    }
    let left = if ticks { read(CURRENT_COUNT) } else { 0 };
    let now_ns = clock::now_ns();
    let count = counts(at_ns.saturating_sub(now_ns));
    write(LVT_TIMER, u32::from(DEADLINE));
    write(INITIAL_COUNT, count);
    Some(Before { left, at_ns: now_ns })
}

/// Ends what [`end_at`] began: the ticks go on.
pub fn put_back(before: Before) {
    let ticks = cpus::this().ticking.load(Relaxed);
    write(LVT_TIMER, u32::from(TICK) | if ticks { 0 } else { MASKED });
    let passed = counts(clock::now_ns().saturating_sub(before.at_ns));
    // A tick that is pending arms the next itself.
    write(
        INITIAL_COUNT,
        if before.left == 0 { 0 } else { before.left.saturating_sub(passed).max(1) },
    );
}

/// Counts of the timer in `ns` nanoseconds, at least one.
fn counts(ns: u64) -> u32 {
    let counts = u128::from(COUNTS_PER_MS.load(Relaxed)) * u128::from(ns) / 1_000_000;
    u32::try_from(counts).unwrap_or(u32::MAX).max(1)
}

/// Sends a command. No other command of this CPU may come between its halves: interrupts are off,
/// and an NMI saves the upper half ([`save`]).
fn command(to: u32, command: u32) {
    io::without_interrupts(|| {
        while read(COMMAND) & SENDING != 0 {
            core::hint::spin_loop();
        }
        write(COMMAND_TO, to << 24);
        write(COMMAND, command | ASSERT);
    });
}

/// Sends an interrupt to the CPU whose APIC has this number.
pub fn interrupt(apic: u32, vector: u8) {
    command(apic, u32::from(vector));
}

/// Sends a non-maskable interrupt.
pub fn interrupt_for_sure(apic: u32) {
    command(apic, NMI);
}

/// Starts all other CPUs in real mode at `page * 4096`, by the usual INIT, SIPI, SIPI.
pub fn start_others(page: u8) {
    command(0, INIT | ALL_OTHERS);
    clock::spin_ns(10_000_000);
    for _ in 0..2 {
        command(0, STARTUP | ALL_OTHERS | u32::from(page));
        clock::spin_ns(200_000);
    }
}

/// Reads the upper half of a command that an NMI may have interrupted.
pub fn save() -> u32 {
    read(COMMAND_TO)
}

pub fn restore(saved: u32) {
    while read(COMMAND) & SENDING != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_TO, saved);
}

/// Sets the class of priority below which no interrupt comes in (CR8), and returns the one before.
pub fn set_priority(class: u64) -> u64 {
    let before;
    // SAFETY: CR8 decides which interrupts are held back, and nothing else.
    unsafe {
        asm!("mov {}, cr8", out(reg) before, options(nostack, preserves_flags));
        asm!("mov cr8, {}", in(reg) class, options(nostack, preserves_flags));
    }
    before
}
