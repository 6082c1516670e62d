// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the vCPUs of a simulated host note the read-write locks that they read.
//!
//! A note is made and unmade in a sequence that ends with a plain store. To cut sequences off takes
//! a call and an interrupt of every other running vCPU of the guest, as `membarrier` does.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};

use super::machine::calls::{Timed, call, is_on_host, sync, with};
use super::memory;
use crate::engine::rows::{Row, Rows, name};

/// How many locks a vCPU can note.
const PLACES: usize = 8;

/// The notes of all vCPUs.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) rows: Rows<Timed<u32>, PLACES>,
    /// How often sequences have been cut off.
    cuts: Timed<u32>,
}

impl Notes {
    pub(super) fn new(vcpus: u32) -> Self {
        Self { rows: Rows(memory::put_all(vcpus as usize, Row::new)), cuts: Timed::ZERO }
    }

    /// Stores `to` in this vCPU's place if it holds `from` and the lock is biased, in a sequence:
    /// it stores only if none was cut off since it began, and its last look and its store are one
    /// step of the machine.
    pub(super) fn sequence(&self, word: &Timed<u32>, biased: u32, [from, to]: [u32; 2]) -> bool {
        if is_on_host() {
            return false;
        }
        let place = self.rows.own(this_vcpu(), name(word));
        let began = self.cuts.peek();
        if word.load(Acquire) & biased == 0 || place.load(Relaxed) != from {
            return false;
        }
        // From here on no other vCPU comes before the store.
        sync();
        let goes_on = self.cuts.peek() == began;
        if goes_on {
            place.store(to, Release);
        }
        goes_on
    }

    /// See [`Bias::cut_off`](overlock::platform::Bias::cut_off).
    pub(super) fn cut_off(&self) {
        call(|costs| costs.call, |m, vcpu| m.cut_off(vcpu));
        self.cuts.poke(self.cuts.peek().wrapping_add(1));
    }
}

pub(super) fn this_vcpu() -> usize {
    with(|m| m.core.current) as usize
}
