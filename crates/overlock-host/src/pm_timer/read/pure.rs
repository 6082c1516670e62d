// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock-free read that shares nothing: each reader asks the clock itself.
//!
//! As monotone as the clock is; right where the clock is the same for all CPUs, as Linux's
//! `CLOCK_MONOTONIC` is. Wait-free: a read is as many steps as the clock's, whatever others do.

use super::ReadRule;
use crate::Nanos;

/// Trusts the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pure;

impl ReadRule for Pure {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        clock()
    }
}
