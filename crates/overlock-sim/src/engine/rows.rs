// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the CPUs of a run note the read-write locks that they read: a line for each, as threads
//! have it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};

/// The notes of one CPU, on a line of its own. Any two locks may share one of the `N` places.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Row<C, const N: usize>(pub(crate) [C; N]);

/// The notes of all CPUs.
#[derive(Debug)]
pub(crate) struct Rows<C: 'static, const N: usize>(pub(crate) &'static [Row<C, N>]);

impl<C, const N: usize> Clone for Rows<C, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, const N: usize> Copy for Rows<C, N> {}

/// The name of a lock in a note: an odd number, as zero is no lock.
pub(crate) fn name<T>(word: *const T) -> u32 {
    word.addr() as u32 | 1
}

impl<C: ConstAtomic<u32>, const N: usize> Row<C, N> {
    pub(crate) const fn new() -> Self {
        Self([const { C::ZERO }; N])
    }
}

impl<C: Atomic<u32>, const N: usize> Rows<C, N> {
    /// The place in which a CPU notes a lock.
    pub(crate) fn own(self, cpu: usize, name: u32) -> &'static C {
        // Names differ by the lines of their locks.
        &self.0[cpu].0[name as usize / 64 % N]
    }

    /// See [`Bias::retract`](overlock::platform::Bias::retract).
    pub(crate) fn retract(self, cpu: usize, name: u32) -> bool {
        self.own(cpu, name).compare_exchange(name, 0, Release, Relaxed).is_ok()
    }

    /// See [`Bias::take`](overlock::platform::Bias::take).
    pub(crate) fn take(self, name: u32) -> u32 {
        let takes = |&cpu: &usize| {
            let place = self.own(cpu, name);
            place.load(Relaxed) == name && place.compare_exchange(name, 0, Acquire, Relaxed).is_ok()
        };
        (0..self.0.len()).filter(takes).count() as u32
    }
}
