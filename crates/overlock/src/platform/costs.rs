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
    /// Whether a waiter may spin before it halts. It should not where the lock holder is likely to
    /// be off its processor for as long as the waiter is on one: a thread that a condition variable
    /// has just woken often runs in place of the thread that signalled, which still holds the lock.
    pub spins: bool,
    /// How long a free lock may stay reserved for a waiter that does not come, in nanoseconds,
    /// before a waiter behind it may pass: its thread may have been stopped by a signal, a debugger
    /// or a freezer. Some milliseconds, which is long against any wake-up; `u64::MAX` for ever.
    pub reserved_ns: u64,
    /// For how many wake-up latencies a waiter of an unfair lock waits outside the queue: awake
    /// waiters take the lock in any order, until one has waited for so long. Each hand-over in
    /// order costs a wake-up; so this is long, and a thread that has lost its processor gets it
    /// back meanwhile. 0 for a queue that waiters join as soon as they have spun.
    pub outside_wakes: u32,
}

impl Costs {
    /// A wake-up latency of 5 µs, 16 pauses between two readings of the clock, spins, and locks
    /// that stay reserved for 4 ms; a waiter joins the queue after 5 ms.
    pub const DEFAULT: Self = Self {
        wake_ns: 5_000,
        pauses_per_look: 16,
        spins: true,
        reserved_ns: 4_000_000,
        outside_wakes: 1_000,
    };

    /// The same costs, but waiters wait for so many wake-up latencies outside the queue.
    #[must_use]
    pub const fn with_outside_wakes(self, outside_wakes: u32) -> Self {
        Self { outside_wakes, ..self }
    }

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

    /// The same costs, but free locks stay reserved for that long.
    #[must_use]
    pub const fn with_reserved_ns(self, reserved_ns: u64) -> Self {
        Self { reserved_ns, ..self }
    }

    /// The same costs for a waiter that may spin before it halts, or may not.
    #[must_use]
    pub const fn with_spins(self, spins: bool) -> Self {
        Self { spins, ..self }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
