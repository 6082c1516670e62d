//! Points and spans of time, in nanoseconds, as the embedder counts them.
//!
//! This crate has no clock. Every event carries the time at which it happened, on one clock of the
//! embedder's choice that does not run backwards; its zero does not matter. All arithmetic
//! saturates: 2⁶⁴ ns are 584 years, so only nonsensical input produces a saturated value, and it
//! must not bring a hypervisor down.

use core::fmt;
use core::ops::{Add, Sub};

/// A point or a span of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The clock's zero, or no time at all.
    pub const ZERO: Self = Self(0);
    /// The end of time: a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Makes a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Makes a span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
