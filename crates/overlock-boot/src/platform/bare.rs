// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Bare`: processors with an APIC, under any hypervisor or none.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | `wait` looks at the word with interrupts off, and does not halt if it has changed. |
//! | P2 | Any interrupt ends a halt. In an NMI there is none (F8). |
//! | P3 | A kick is an interrupt, which can't come in between the look and the halt ([`halt`]); sending it comes after the change of the word in program order, which x86 keeps. |
//! | P4 | A running CPU takes the interrupt and forgets it. A CPU that is not up is sent none. |
//! | P5 | The default: no processor is given away. |
//! | P6 | The processor's pause instruction. |
//! | P7 | A CPU's number is in its record, and never changes. |
//! | P8 | Static arrays. |
//! | P9 | The time stamp counter, which all CPUs of one machine share. |
//! | P10 | [`Bare::set_waiting`]. |
//! | P11 | No cheap releases. |
//!
//! A deadline is kept to a tick of the timer: where that does not tick, a wait with one spins.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering, Ordering::Relaxed};

use overlock::platform::{Costs, ReadModifyWrite};
use overlock::{Bucket, Cpu, Platform, Slot};

use crate::cpus::{self, count};
use crate::machine::halt::{self, Look};
use crate::machine::{apic, clock, io};

/// A processor that halts until an interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

super::tables!(Bare);
super::native!(NativeBare of Bare);

static WAITING: AtomicBool = AtomicBool::new(true);

impl Bare {
    /// Switches waiting on or off, while no lock is in use.
    pub fn set_waiting(on: bool) {
        WAITING.store(on, Relaxed);
    }

    /// [`Platform::wait`], with something done after the look at the word, and the look as told.
    pub fn wait_with(
        word: &AtomicU32,
        expected: u32,
        deadline_ns: Option<u64>,
        between: impl FnOnce(),
        look: Look,
    ) {
        let me = cpus::this();
        let ends_in_time = || {
            me.ticking.load(Relaxed)
                && io::interrupts_enabled()
                && deadline_ns > Some(Self::now_ns())
        };
        if me.in_nmi.load(Relaxed) != 0 || deadline_ns.is_some() && !ends_in_time() {
            return;
        }
        // Acquire: what the kicker wrote before is seen (P3).
        let worth_it = || word.load(Ordering::Acquire) == expected;
        if !halt::halt_if(worth_it, between, look) {
            return count(&me.tally.early);
        }
        count(&me.tally.halts);
        if word.load(Relaxed) == expected {
            count(&me.tally.futile);
        }
    }
}

// SAFETY: clause by clause in the table above.
unsafe impl Platform for Bare {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;

    const WAITS: bool = true;

    #[inline(always)]
    fn waits() -> bool {
        WAITING.load(Relaxed)
    }

    /// An interrupt and the end of a halt under an emulator. A processor of its own needs 2 µs.
    fn costs() -> Costs {
        Costs::DEFAULT.with_wake_ns(20_000)
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }

    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    #[inline]
    fn cpu() -> Option<Cpu> {
        Cpu::new(cpus::this().number())
    }

    fn slot(cpu: Cpu) -> &'static Slot<Self> {
        &Self::SLOTS[cpu.index()]
    }

    fn waiters() -> &'static [Bucket<Self>] {
        Self::BUCKETS
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_with(word, expected, deadline_ns, || {}, Look::Safely);
    }

    fn kick(_word: *const AtomicU32, cpu: Cpu) {
        let other = cpus::of(cpu.index());
        if other.up.load(Relaxed) {
            count(&cpus::this().tally.kicks);
            apic::interrupt(other.apic.load(Relaxed), apic::KICK);
        }
    }

    #[inline]
    fn now_ns() -> u64 {
        clock::now_ns()
    }
}

impl crate::kernel::Kernel for Bare {
    const NAME: &'static str = "tcg";
    type Aware = Self;
    type Native = NativeBare;

    fn set_waiting(on: bool) {
        Self::set_waiting(on);
    }

    fn tick_every_us(us: Option<u32>) {
        apic::tick_every_us(us);
    }

    fn without_interrupts<R>(work: impl FnOnce() -> R) -> R {
        io::without_interrupts(work)
    }

    fn interrupt_for_sure(cpu: usize) -> bool {
        apic::interrupt_for_sure(cpus::of(cpu).apic.load(Relaxed));
        true
    }

    fn stolen_ns(_cpu: usize) -> u64 {
        0
    }

    fn probe_wait(word: &AtomicU32, expected: u32, between: impl FnOnce(), careless: bool) {
        let look = if careless { Look::Carelessly } else { Look::Safely };
        Self::wait_with(word, expected, None, between, look);
    }

    fn exit(code: u8) -> ! {
        crate::machine::serial::exit(code)
    }
}
