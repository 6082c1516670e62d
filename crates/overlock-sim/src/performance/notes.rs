// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the vCPUs of a simulated host note the read-write locks that they read: a line for each,
//! as threads have it.
//!
//! A note is made and unmade in a sequence that ends with a plain store. To cut sequences off takes
//! a call and an interrupt of every other running vCPU, as `membarrier` does.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};

use super::machine::calls::{Timed, call, is_on_host, sync, with};
use super::memory;

/// How many locks a vCPU can note.
const PLACES: usize = 8;

/// The notes of one vCPU, on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Row([Timed<u32>; PLACES]);

/// The notes of all vCPUs.
#[derive(Debug)]
pub(crate) struct Notes {
    rows: &'static [Row],
    /// How often sequences have been cut off.
    cuts: Timed<u32>,
}

/// The name of a lock: an odd number, as zero is no lock.
fn name(word: *const Timed<u32>) -> u32 {
    word.addr() as u32 | 1
}

impl Notes {
    pub(crate) fn new(vcpus: u32) -> Self {
        let row = || Row([const { Timed::ZERO }; PLACES]);
        Self { rows: memory::put_all(vcpus as usize, row), cuts: Timed::ZERO }
    }

    /// The places in which vCPUs note a lock.
    fn places(&self, name: u32) -> impl Iterator<Item = &'static Timed<u32>> {
        self.rows.iter().map(move |row| &row.0[name as usize / 64 % PLACES])
    }

    /// The one of this vCPU.
    fn own(&self, name: u32) -> Option<&'static Timed<u32>> {
        self.places(name).nth(with(|m| m.core.current) as usize)
    }

    /// Stores `to` in this vCPU's place if it holds `from` and the lock is biased, in a sequence.
    fn sequence(&self, word: &Timed<u32>, biased: u32, [from, to]: [u32; 2]) -> bool {
        let Some(place) = self.own(name(word)).filter(|_| !is_on_host()) else { return false };
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

    /// See [`Bias::enter`](overlock::platform::Bias::enter).
    pub(crate) fn enter(&self, word: &Timed<u32>, biased: u32) -> bool {
        self.sequence(word, biased, [0, name(word)])
    }

    /// See [`Bias::leave`](overlock::platform::Bias::leave).
    pub(crate) fn leave(&self, word: &Timed<u32>, biased: u32) -> bool {
        self.sequence(word, biased, [name(word), 0])
    }

    /// See [`Bias::retract`](overlock::platform::Bias::retract).
    pub(crate) fn retract(&self, word: *const Timed<u32>) -> bool {
        let name = name(word);
        let takes = |place: &Timed<u32>| place.compare_exchange(name, 0, Release, Relaxed).is_ok();
        self.own(name).is_some_and(takes)
    }

    /// See [`Bias::cut_off`](overlock::platform::Bias::cut_off).
    pub(crate) fn cut_off(&self) {
        call(|costs| costs.call, |m, vcpu| m.cut_off(vcpu));
        self.cuts.poke(self.cuts.peek().wrapping_add(1));
    }

    /// See [`Bias::take`](overlock::platform::Bias::take).
    pub(crate) fn take(&self, word: *const Timed<u32>) -> u32 {
        let name = name(word);
        let takes = |place: &&Timed<u32>| {
            place.load(Relaxed) == name && place.compare_exchange(name, 0, Acquire, Relaxed).is_ok()
        };
        self.places(name).filter(takes).count() as u32
    }
}
