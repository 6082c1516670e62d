//! What rows and experiments call the same: policies, lengths, and rules for the PM timer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The yield policy under which vCPUs report no spin to the host.
pub const NO_POLICY: &str = "none";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// Exponential: mostly short, sometimes several times the mean.
    Exp,
    /// Uniform: anything from 0 to twice the mean.
    Uniform,
    /// All the same, which no program has.
    #[default]
    Fixed,
    /// Nine of ten short, every tenth 20 times as long.
    Bimodal,
}

impl Lengths {
    pub const ALL: [Self; 4] = [Self::Exp, Self::Uniform, Self::Fixed, Self::Bimodal];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Uniform => "uniform",
            Self::Fixed => "fixed",
            Self::Bimodal => "bimodal",
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rule by which vCPUs that read the PM timer at the same time share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmTimerRule {
    /// A mutex for each read: what VMMs do today.
    Mutex,
    /// S5's rule as published: a reader that finds the lock taken waits until it is free, and
    /// returns the time that it then finds.
    Published,
    /// The same, but a loser waits only for the one update that it found.
    Refresh,
    /// No reader waits for another, but all share the latest time returned: for clocks that may
    /// differ from CPU to CPU.
    Clamped,
    /// No reader waits for another, and nothing is shared: all trust the clock.
    LockFree,
}

impl PmTimerRule {
    /// All rules, from today's practice to the best.
    pub const ALL: [Self; 5] =
        [Self::Mutex, Self::Published, Self::Refresh, Self::Clamped, Self::LockFree];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Published => "published",
            Self::Refresh => "refresh",
            Self::Clamped => "clamped",
            Self::LockFree => "lock-free",
        }
    }
}
