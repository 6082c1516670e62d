//! The world of a vCPU: its record is at the GS base, a hypercall is a port access.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};

use overlock::platform::Platform;
use overlock_bench::clock::ticks;
use overlock_bench::{Program, ThisVcpu, Verbs};

use super::abi::{Call, Hooks, PM_TIMER_PORT, VcpuRecord};
use super::calls::{self, call, record};
use super::platform::GuestPlatform;

/// A vCPU under KVM that calls its host through ports.
///
/// Its verbs work only in a guest. Called from anywhere else they fault at once: the GS base of a
/// Linux program is zero, where nothing is ever mapped.
#[derive(Clone, Copy, Debug)]
pub struct Ports;

impl Verbs for Ports {
    type Word = AtomicU32;
    type Aware = GuestPlatform<true>;
    type Native = GuestPlatform<false>;

    #[inline]
    fn number() -> u32 {
        record().number
    }
    fn count() -> u32 {
        record().shared().vcpus
    }
    #[inline]
    fn stopping() -> bool {
        record().shared().stop.load(Relaxed)
    }
    #[inline(always)]
    fn now_ns() -> u64 {
        record().ns_at(ticks())
    }
    #[inline(always)]
    fn away_ns() -> u64 {
        let record = record();
        record.steal_ns.load(Relaxed) + record.halted_ns.load(Relaxed)
    }
    fn work_ns(ns: u64) {
        if ns == 0 {
            return;
        }
        let (start, away) = (Self::now_ns(), Self::away_ns());
        let mut end = start + ns;
        loop {
            let now = Self::now_ns();
            if now >= end {
                let taken = Self::away_ns() - away;
                if now >= start + ns + taken {
                    return;
                }
                end = start + ns + taken;
            }
        }
    }
    #[inline]
    fn relax() {
        <GuestPlatform<false> as Platform>::relax();
    }
    fn halt_unless(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        calls::halt_unless(word, expected, deadline_ns);
    }
    fn sleep_ns(ns: u64) {
        let deadline = Self::now_ns() + ns;
        while Self::now_ns() < deadline && !Self::stopping() {
            call(Call::Halt, [deadline, 0]);
        }
    }
    fn kick(target: u32) {
        call(Call::Kick, [u64::from(target), 0]);
    }
    fn interrupt(target: u32, number: u32) {
        call(Call::Ipi, [u64::from(target), u64::from(number)]);
    }
    fn interrupt_all(number: u32) {
        call(Call::IpiAll, [u64::from(number), 0]);
    }
    fn yield_to(target: Option<u32>) {
        call(Call::YieldTo, [target.map_or(u64::MAX, u64::from), 0]);
    }
    fn long_spin() {
        call(Call::LongSpin, [0, 0]);
    }
    fn pm_timer() -> u32 {
        let value;
        // SAFETY: reading the port has no effect on memory.
        unsafe { asm!("in eax, dx", in("dx") PM_TIMER_PORT, out("eax") value, options(nostack)) };
        value
    }
    fn is_preempted(number: u32) -> bool {
        record().other(number).is_some_and(|record| record.preempted.load(Relaxed))
    }
    #[inline]
    fn enter_critical() {
        record().critical.store(true, Relaxed);
    }
    #[inline]
    fn leave_critical() {
        let record = record();
        record.critical.store(false, Relaxed);
        if record.yield_wanted.load(Relaxed) {
            call(Call::EndGrace, [0, 0]);
        }
    }
}

/// Starts a vCPU's program, as its outermost frame: it never returns to a caller's frame.
pub(crate) fn begin<P: Program<Ports>>(program: &P) {
    call(Call::Started, [ticks(), 0]);
    program.run(ThisVcpu::current());
}

impl Hooks {
    /// Those of program `P`. All but `deliver` run on the host.
    pub(crate) fn of<P: Program<Ports>>() -> Self {
        fn program<P>(record: &VcpuRecord) -> &P {
            // SAFETY: these hooks are made for the program that runs, and `program` points to it.
            unsafe { &*record.program.cast::<P>() }
        }
        Self {
            deliver: deliver::<P>,
            hint: |record| program::<P>(record).hint(record.number),
            truth: |record| program::<P>(record).truth(record.number),
            progress: |record| program::<P>(record).progress(record.number),
            was_away: |record, since_ns, until_ns| {
                program::<P>(record).was_away(record.number, since_ns, until_ns);
            },
        }
    }
}

/// Delivers pending interrupts until there are none. Runs on the vCPU, on top of the program.
///
/// The host has found `pending` set and `interrupts_off` clear, and has stopped the vCPU at some
/// instruction. An interrupt that arrives while this runs finds `interrupts_off` set; the load of
/// `pending` that follows the clearing sees it, or the host does at the exit that its arrival
/// causes.
extern "C" fn deliver<P: Program<Ports>>(record: &VcpuRecord) {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    let program = unsafe { &*record.program.cast::<P>() };
    while record.deliverable() {
        record.interrupts_off.store(true, Relaxed);
        // ORDERING: Acquire → the Release with which the host sets a bit; shows what senders did.
        let mut pending = record.pending.swap(0, Acquire);
        while pending != 0 {
            program.interrupt(ThisVcpu::current(), pending.trailing_zeros());
            pending &= pending - 1;
        }
        record.interrupts_off.store(false, Relaxed);
    }
}
