//! A halt that no kick slips past.
//!
//! ```text
//!   waiter                         kicker
//!   cli
//!   word == expected?              word = new
//!   sti; hlt                       interrupt
//! ```
//!
//! The interrupt can't come in between the look and `hlt`: interrupts are off, and `sti` keeps them
//! off for one instruction more. So either the look finds the word changed, or the interrupt ends
//! the `hlt` (F9). Two things could still come between:
//!
//! * A non-maskable interrupt between `sti` and `hlt`. Its return ends the one instruction of
//!   grace, and a kick that is pending would come in *before* the `hlt`. So the handler moves the
//!   return past the `hlt` ([`skip`]).
//! * The caller had interrupts off, for a lock that handlers take too. They must stay off, but a
//!   CPU that halts so sleeps for ever. The task priority then shuts out all but kicks, which
//!   touch nothing; they alone come in.
//!
//! # Where `hlt` traps (F12)
//!
//! In a confidential guest `hlt` raises an exception, whose handler calls the host. By then the one
//! instruction of grace is over: a kick comes in before the call, and the call halts for ever. Such
//! a guest leaves interrupts off and makes a call that returns when one is pending
//! ([`Means::Call`]):
//!
//! ```text
//!   waiter                         kicker
//!   cli
//!   word == expected?              word = new
//!   call; sti                      interrupt: stays pending until `sti`, and ends the call
//! ```
//!
//! On Intel's TDX the call is `TDG.VP.VMCALL<Instruction.HLT>`. Its R12 says that interrupts are
//! *not* blocked, though they are: else the host may leave the CPU halted. This has not run on such
//! a machine; [`host`] plays the host's side.
//!
//! Sources: Intel, *Guest-Host-Communication Interface for TDX*, 3.8; Linux 6.12,
//! arch/x86/coco/tdx/tdx.c (`tdx_safe_halt`).

use core::arch::naked_asm;
use core::sync::atomic::Ordering::Relaxed;

use super::{apic, io};
use crate::cpus;
use crate::platform::{HaltEnd, Sabotage, Wait, broken, has_passed};

/// The class of priority below that of a kick.
const KICKS_ONLY: u64 = (apic::KICK as u64 >> 4) - 1;

/// Enables interrupts and halts until one comes.
///
/// # Safety
/// The handlers are in place.
#[unsafe(naked)]
unsafe extern "C" fn enable_and_halt() {
    naked_asm!("sti", "hlt", "ret")
}

/// The same without the grace of `sti`: an interrupt that is pending comes in before the `hlt`.
///
/// # Safety
/// As for [`enable_and_halt`].
#[unsafe(naked)]
unsafe extern "C" fn enable_and_halt_late() {
    naked_asm!("sti", "nop", "hlt", "ret")
}

/// Lets in the interrupts that are pending.
///
/// # Safety
/// As for [`enable_and_halt`].
#[unsafe(naked)]
unsafe extern "C" fn let_in() {
    naked_asm!("sti", "nop", "cli", "ret")
}

pub fn let_in_pending() {
    if !io::interrupts_enabled() {
        // SAFETY: the handlers are in place before any CPU works.
        unsafe { let_in() };
    }
}

/// Where a non-maskable interrupt returns to, in place of `to`.
pub fn skip(to: u64) -> u64 {
    // `sti` is one byte, and so is `hlt`.
    let hlt = (enable_and_halt as *const ()).addr() as u64 + 1;
    if to == hlt { to + 1 } else { to }
}

/// Halts with interrupts as they are. Where they are off, only a kick or an NMI ends it.
///
/// # Safety
/// Under KVM, with `KVM_FEATURE_PV_UNHALT`.
#[unsafe(naked)]
unsafe extern "C" fn plain_halt() {
    naked_asm!("hlt", "ret")
}

#[derive(Clone, Copy, Debug)]
pub enum Means {
    /// `hlt` with interrupts enabled, one of which is the kick.
    Interrupts,
    /// `hlt` with interrupts as they are; the hypervisor ends it.
    Hypervisor,
    /// A call that returns, with interrupts still off, when one is pending.
    Call(fn()),
}

/// Pauses between two polls by [`host`].
const PAUSES: u32 = 100;

/// Plays the host of a confidential guest, for [`Means::Call`]: returns when an interrupt is
/// pending, or a non-maskable one has come.
pub fn host() {
    let ended_by = &cpus::this().ended_by;
    while ended_by.load(Relaxed) == NOTHING && !apic::is_pending() {
        // An emulator serialises reads of the APIC: without pauses, the kicker's write can starve.
        (0..PAUSES).for_each(|_| core::hint::spin_loop());
    }
}

/// What has ended a halt ([`cpus::PerCpu::ended_by`]): nothing that the kernel saw.
const NOTHING: u8 = 0;
/// The interrupt that is a kick.
const KICK: u8 = 1;
/// Another interrupt.
const OTHER: u8 = 2;

/// Notes an interrupt, which will return to `to`. The first one ends the halt, if there is one.
pub(super) fn note(is_kick: bool, to: u64) {
    // `sti` and `nop` are one byte each.
    if to == (enable_and_halt_late as *const ()).addr() as u64 + 2 {
        // It came before the `hlt`.
        return;
    }
    let by = if is_kick { KICK } else { OTHER };
    // It may have been ended already.
    let _ = cpus::this().ended_by.compare_exchange(NOTHING, by, Relaxed, Relaxed);
}

/// Halts once, unless the word of `wait` has changed.
pub fn halt_if(wait: Wait<'_, impl FnOnce()>, means: Means) -> HaltEnd {
    let enabled = io::interrupts_enabled();
    if !broken(Sabotage::LooksEarly) {
        io::disable_interrupts();
    }
    let worth_it = wait.is_worth_it();
    let ended = if worth_it {
        (wait.between)();
        io::disable_interrupts();
        let timer = wait.deadline_ns.and_then(|at_ns| apic::end_at(at_ns, enabled));
        // A hypervisor's kick is no interrupt. Without a hypervisor, a halt that no interrupt ended
        // is stray: an emulator may end it early.
        let kicked = match halt(enabled, means, timer.is_some()) {
            KICK => true,
            NOTHING => matches!(means, Means::Hypervisor),
            _ => false,
        };
        timer.into_iter().for_each(apic::put_back);
        match kicked {
            true => HaltEnd::Kicked,
            false if has_passed(wait.deadline_ns) => HaltEnd::Overdue,
            false => HaltEnd::Otherwise,
        }
    } else {
        HaltEnd::Early
    };
    if enabled {
        // SAFETY: they were enabled before.
        unsafe { io::enable_interrupts() };
    }
    ended
}

/// Halts once, with interrupts on, and returns whether no interrupt has ended it.
pub fn halt_silently() -> bool {
    io::without_interrupts(|| halt(true, Means::Hypervisor, false) == NOTHING)
}

/// Halts once; interrupts are off, and were `enabled` before. A `timed` halt is ended by a timer,
/// too. Returns what ended it.
fn halt(enabled: bool, means: Means, timed: bool) -> u8 {
    let ended_by = &cpus::this().ended_by;
    // This halt may be inside an interrupt that has ended another.
    let outer = ended_by.swap(NOTHING, Relaxed);
    if matches!(means, Means::Hypervisor) && !enabled && !timed {
        // SAFETY: a kick ends it, by KVM's word.
        unsafe { plain_halt() };
    } else {
        let before = (!enabled).then(|| apic::set_priority(KICKS_ONLY));
        match means {
            Means::Call(call) => halt_by(call),
            // SAFETY: no CPU waits before the handlers are in place.
            _ if broken(Sabotage::LosesGrace) => unsafe { enable_and_halt_late() },
            // SAFETY: as above.
            _ => unsafe { enable_and_halt() },
        }
        io::disable_interrupts();
        if let Some(before) = before {
            apic::set_priority(before);
        }
    }
    ended_by.swap(outer, Relaxed)
}

/// Halts by `call`, and lets in what has ended it.
fn halt_by(call: fn()) {
    if broken(Sabotage::LosesGrace) {
        // What comes in here came before the call, and does not end it.
        // SAFETY: no CPU waits before the handlers are in place.
        unsafe { let_in() };
        cpus::this().ended_by.store(NOTHING, Relaxed);
    }
    call();
    // SAFETY: as above.
    unsafe { let_in() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_before_the_halt_returns_behind_it() {
        let start: *const u8 = (enable_and_halt as *const ()).cast();
        // SAFETY: three instructions of one byte each.
        let code = unsafe { start.cast::<[u8; 3]>().read() };
        assert_eq!(code, [0xfb, 0xf4, 0xc3], "sti, hlt, ret");
        let sti = start.addr() as u64;
        assert_eq!([sti, sti + 1, sti + 2].map(skip), [sti, sti + 2, sti + 2]);
        let late: *const u8 = (enable_and_halt_late as *const ()).cast();
        // SAFETY: four instructions of one byte each.
        let code = unsafe { late.cast::<[u8; 4]>().read() };
        assert_eq!(code, [0xfb, 0x90, 0xf4, 0xc3], "sti, nop, hlt, ret");
    }
}
