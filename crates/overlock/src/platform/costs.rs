// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a world costs: the figures that budgets are made of.

/// What waiting costs in a world, as a value beside the [`Platform`](super::Platform) that says
/// what the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// The wake-up latency, in nanoseconds: how long it takes until a CPU that halts has been
    /// kicked and is back. A futex takes 5 to 50 µs.
    pub wake_ns: u64,
    /// Pauses between two looks at the clock in a spin loop with a budget: about 0.2 µs at 12 ns a
    /// pause. A world whose time is its own, and whose every pause is a case to be explored, wants
    /// fewer.
    pub pauses_per_look: u32,
}

impl Costs {
    /// A wake-up latency of 5 µs, 16 pauses between two looks.
    pub const DEFAULT: Self = Self { wake_ns: 5_000, pauses_per_look: 16 };

    /// The same with another wake-up latency.
    #[must_use]
    pub const fn with_wake_ns(self, wake_ns: u64) -> Self {
        Self { wake_ns, ..self }
    }

    /// The same with another number of pauses between two looks at the clock.
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
