// SPDX-License-Identifier: MIT OR Apache-2.0
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

use core::arch::naked_asm;
use core::sync::atomic::Ordering::Relaxed;

use super::{apic, io};
use crate::cpus;
use crate::platform::{Ended, Sabotage, Wait, broken, has_passed};

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

/// Where a return of a non-maskable interrupt is to go instead of `to`.
pub fn skip(to: u64) -> u64 {
    // `sti` is one byte, and so is `hlt`.
    let hlt = (enable_and_halt as *const ()).addr() as u64 + 1;
    if to == hlt { to + 1 } else { to }
}

/// Halts with interrupts as they are. Where they are off, only a kick ends it.
///
/// # Safety
/// Under KVM, with `KVM_FEATURE_PV_UNHALT`.
#[unsafe(naked)]
unsafe extern "C" fn plain_halt() {
    naked_asm!("hlt", "ret")
}

/// What ends a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Interrupts, one of which is the kick.
    Interrupts,
    /// The hypervisor, with interrupts as they are.
    Hypervisor,
}

/// What has ended a halt ([`cpus::PerCpu::ended_by`]): nothing that the kernel saw.
const NOTHING: u8 = 0;
/// The interrupt that is a kick.
const KICK: u8 = 1;
/// Another interrupt.
const OTHER: u8 = 2;

/// An interrupt has come. The first one ends the halt, if there is one.
pub(super) fn note(is_kick: bool) {
    let by = if is_kick { KICK } else { OTHER };
    // It may have been ended already.
    let _ = cpus::this().ended_by.compare_exchange(NOTHING, by, Relaxed, Relaxed);
}

/// Halts once if `wait` is still worth it. A kick that the hypervisor `remembers` makes it return
/// at once.
pub fn halt_if(
    wait: Wait<'_, impl FnOnce()>,
    means: Means,
    remembers: impl FnOnce() -> bool,
) -> Ended {
    let enabled = io::interrupts_enabled();
    if !broken(Sabotage::LooksEarly) {
        io::disable_interrupts();
    }
    let worth_it = wait.is_worth_it();
    let ended = if worth_it {
        (wait.between)();
        io::disable_interrupts();
        let kicked = remembers() || halt(enabled, means) != OTHER;
        match kicked {
            true => Ended::Kicked,
            false if has_passed(wait.deadline_ns) => Ended::Overdue,
            false => Ended::Otherwise,
        }
    } else {
        Ended::Early
    };
    if enabled {
        // SAFETY: they were enabled before.
        unsafe { io::enable_interrupts() };
    }
    ended
}

/// Halts once; interrupts are off, and were `enabled` before. Returns what ended it.
fn halt(enabled: bool, means: Means) -> u8 {
    let ended_by = &cpus::this().ended_by;
    // This halt may be in an interrupt that has ended another.
    let outer = ended_by.swap(NOTHING, Relaxed);
    if means == Means::Hypervisor && !enabled {
        // SAFETY: a kick ends it, by KVM's word.
        unsafe { plain_halt() };
    } else {
        let before = (!enabled).then(|| apic::set_priority(KICKS_ONLY));
        // SAFETY: nobody waits before the handlers are in place.
        unsafe { enable_and_halt() };
        io::disable_interrupts();
        if let Some(before) = before {
            apic::set_priority(before);
        }
    }
    ended_by.swap(outer, Relaxed)
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
    }
}
