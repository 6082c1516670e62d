//! `Bare`: processors with an APIC, under any hypervisor or none.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | `wait` looks at the word with interrupts off, and does not halt if it has changed. |
//! | P2 | Any interrupt ends a halt. In an NMI there is none (F8). |
//! | P3 | A kick is an interrupt, which can't come in between the look and the halt ([`halt`]); sending it comes after the change of the word in program order, which x86 keeps. |
//! | P4 | A running CPU takes the interrupt and forgets it. |
//!
//! The others as in [`platform`](super). A deadline is an interrupt of the CPU's timer; where the timer
//! ticks anyway, the deadline is met to within a tick.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{HaltEnd, Halting, Sabotage, Wait, broken};
use crate::cpus::{self, PerCpu};
use crate::kernel::Kernel;
use crate::machine::apic;
use crate::machine::halt::{Means, halt_if, host};

/// A processor that halts until an interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

super::platform!(Bare, NativeBare);

/// Whether CPUs halt by a call instead of `hlt` (F12).
static CALLS: AtomicBool = AtomicBool::new(false);

impl Bare {
    /// Makes CPUs halt as in a confidential guest, where `hlt` traps. Called before any of them
    /// waits.
    pub fn halt_by_call() {
        CALLS.store(true, Relaxed);
    }

    /// Whether they do. Then a CPU that halts keeps its processor busy, because a loop plays the
    /// host.
    pub(crate) fn halts_by_call() -> bool {
        CALLS.load(Relaxed)
    }
}

/// Whether nothing would end this wait, or not in time.
pub(super) fn refuses(wait: &Wait<'_, impl FnOnce()>) -> bool {
    cpus::this().in_nmi.load(Relaxed) != 0 && !broken(Sabotage::HaltsAnywhere) || wait.is_late()
}

impl Halting for Bare {
    const KICKS_INTERRUPT: bool = true;
    /// An interrupt and the return from a halt, under an emulator. A real processor needs 2 us.
    const WAKE_NS: u64 = 20_000;

    fn halt(wait: Wait<'_, impl FnOnce()>) -> HaltEnd {
        if refuses(&wait) {
            return HaltEnd::Refused;
        }
        let means = match CALLS.load(Relaxed) {
            true => Means::Call(host),
            false => Means::Interrupts,
        };
        halt_if(wait, means)
    }

    fn call_back(cpu: &PerCpu) {
        apic::interrupt(cpu.apic.load(Relaxed), apic::KICK);
    }

    fn reached() -> u64 {
        cpus::this().tally.arrived.load(Relaxed)
    }

    /// They are interrupts, which come in by themselves.
    fn take_kicks() {}
}

impl Kernel for Bare {
    const NAME: &'static str = "tcg";
    type Aware = Self;
    type Native = NativeBare;
}
