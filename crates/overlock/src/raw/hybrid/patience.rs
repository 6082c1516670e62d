// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often a waiter looks at a lock that somebody else has.
//!
//! A look takes the cache line away from the holder, and a waiter that sees the lock free takes it
//! away for longer. Whether that is good depends on what the holder does next:
//!
//! * It goes on to other work. Then the waiter should have the lock at once: two CPUs work side by
//!   side.
//! * It comes straight back. Then the lock is saturated by one CPU, a change of hands gains nothing
//!   and costs several transfers of the line (about 0.3 µs where a section may take 0.05), and the
//!   waiter should look seldom and then hold the lock for a while itself.
//!
//! * It does not run. Then every look is in vain, and the waiter's processor may be just the one
//!   that the holder needs: the waiter loses *hope* when nothing changes, and halts; for its next
//!   few waits at once.
//!
//! No waiter can know; but it can try. Now and then a newcomer that sees the lock free holds back
//! for [`DEFER`] pauses. If the lock is taken again by then, the CPU is *patient* with this lock
//! for its next waits, otherwise *hasty*. The verdict is noted in the CPU's slot for the lock it
//! last waited for, with a number of waits that it is good for.

use crate::platform::Platform;
use crate::slot::Slot;
use crate::waiters::Key;

use super::super::queue::STEALS;

/// Pauses that a probing newcomer, or a polite first in line, leaves a free lock alone: about 0.15
/// µs, longer than a holder takes to come straight back.
const DEFER: u32 = 12;
/// Pauses between two looks of a hasty waiter, to begin with.
const HASTY: u32 = 2;
/// Pauses between two looks of a patient waiter: about 8 µs, so that its looks cost the holder a
/// few percent.
const PATIENT: u32 = 700;
/// How long nothing may change before spinning is hopeless: longer than most sections, and some
/// wake-ups.
pub(super) fn stuck_ns<P: Platform>() -> u64 {
    3 * P::wake_ns()
}
/// In a note: patient. The low bits count the waits that the verdict is still good for.
const NOTE_PATIENT: u32 = 1 << 15;
/// In a note: hopeless.
const NOTE_HOPELESS: u32 = 1 << 14;
/// How many waits each verdict is good for. A wrong one costs most when it is patience.
const HASTY_FOR: u32 = 32;
const PATIENT_FOR: u32 = 12;
/// Hopelessness is good for as many waits as wake-ups fit into so long: each may be a halt too
/// many.
const HOPELESS_FOR_NS: u64 = 80_000;

/// Leaves a free lock alone for long enough to see its last holder come straight back.
pub(super) fn hold_back<P: Platform>() {
    for _ in 0..DEFER {
        P::relax();
    }
}

/// A waiter's patience with one lock.
#[derive(Debug)]
pub(super) struct Patience {
    pauses: u32,
    steals: Option<u32>,
    probe: bool,
    hopeless: bool,
}

impl Patience {
    /// What this CPU has learnt about the lock `key`.
    pub(super) fn recall<P: Platform>(key: Key) -> Self {
        let note = Slot::<P>::recall(key);
        let probe = note & !(NOTE_PATIENT | NOTE_HOPELESS) == 0;
        if !probe {
            Slot::<P>::note(key, note - 1);
        }
        let patient = !probe && note & NOTE_PATIENT != 0;
        let pauses = if patient { PATIENT } else { HASTY };
        let hopeless = !probe && note & NOTE_HOPELESS != 0;
        Self { pauses, steals: None, probe, hopeless }
    }

    /// Whether the holder had better be left alone.
    pub(super) fn is_patient(&self) -> bool {
        self.pauses >= PATIENT
    }

    /// Whether spinning has been in vain lately.
    pub(super) fn is_hopeless(&self) -> bool {
        self.hopeless
    }

    /// Nothing has changed for [`stuck_ns`].
    pub(super) fn despair<P: Platform>(&mut self, key: Key) {
        self.hopeless = true;
        let waits = (HOPELESS_FOR_NS / P::wake_ns().max(1)).clamp(1, 16) as u32;
        Slot::<P>::note(key, NOTE_HOPELESS | waits);
    }

    /// Whether the lock has come free and gone to somebody else between the last look and this one.
    fn has_changed(&mut self, word: u32) -> bool {
        let steals = word & STEALS;
        self.steals.replace(steals).is_some_and(|before| before != steals)
    }

    /// If it is time to find out what the holder of a free lock does, learns from `stays_free`,
    /// which [holds back](hold_back) and says whether nobody has taken the lock meanwhile. Returns
    /// whether it was time.
    pub(super) fn probe<P: Platform>(&mut self, key: Key, stays_free: impl Fn() -> bool) -> bool {
        if !self.probe {
            return false;
        }
        self.probe = false;
        if stays_free() {
            Slot::<P>::note(key, HASTY_FOR);
        } else {
            self.pauses = PATIENT;
            Slot::<P>::note(key, NOTE_PATIENT | PATIENT_FOR);
        }
        true
    }

    /// How many pauses to make before the next look, after a look found the taken lock in state
    /// `word`; and whether it has changed hands since the look before.
    pub(super) fn pauses(&mut self, word: u32) -> (u32, bool) {
        let changed = self.has_changed(word);
        if changed {
            self.pauses = (self.pauses * 2).min(PATIENT);
        }
        (self.pauses, changed)
    }
}
