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

use super::apic;
use super::io;

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

/// When to look at the word: what makes this work, and what breaks it on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// With interrupts off until the halt.
    Safely,
    /// With interrupts on: a kick after the look and before the halt is lost.
    Carelessly,
}

/// Halts once if `worth_it` still holds. `between` is called after the look: a test kicks there.
/// Returns whether it halted.
pub fn halt_if(worth_it: impl FnOnce() -> bool, between: impl FnOnce(), look: Look) -> bool {
    let enabled = io::interrupts_enabled();
    if look == Look::Safely {
        io::disable_interrupts();
    }
    let halts = worth_it();
    if halts {
        between();
        let before = (!enabled).then(|| apic::set_priority(KICKS_ONLY));
        // SAFETY: nobody waits before the handlers are in place.
        unsafe { enable_and_halt() };
        io::disable_interrupts();
        if let Some(before) = before {
            apic::set_priority(before);
        }
    }
    if enabled {
        // SAFETY: they were enabled before.
        unsafe { io::enable_interrupts() };
    }
    halts
}
