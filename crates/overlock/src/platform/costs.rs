// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a world costs: the figures from which spin budgets are computed.

/// What waiting costs in a world, as a value beside the [`Platform`](super::Platform) that says
/// what the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// The wake-up latency, in nanoseconds: from the kick of a halted CPU until it runs. A futex
    /// takes 5 to 50 µs.
    pub wake_ns: u64,
    /// Pauses between two readings of the clock in a spin loop with a budget; 16 pauses of 12 ns
    /// are about 0.2 µs. A world that has its own time and explores every pause as a separate case
    /// should use fewer.
    pub pauses_per_look: u32,
}

impl Costs {
    /// A wake-up latency of 5 µs, and 16 pauses between two readings of the clock.
    pub const DEFAULT: Self = Self { wake_ns: 5_000, pauses_per_look: 16 };

    /// The same costs with another wake-up latency.
    #[must_use]
    pub const fn with_wake_ns(self, wake_ns: u64) -> Self {
        Self { wake_ns, ..self }
    }

    /// The same costs with another number of pauses between two readings of the clock.
    #[must_use]
    pub const fn with_pauses_per_look(self, pauses_per_look: u32) -> Self {
        Self { pauses_per_look, ..self }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
