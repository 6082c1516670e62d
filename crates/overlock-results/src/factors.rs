//! What rows and experiments call the same: policies, lengths, and rules for the PM timer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::named;

/// The yield policy under which vCPUs report no spin to the host.
pub const NO_POLICY: &str = "none";

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Lengths {
        /// Exponential: mostly short, sometimes several times the mean.
        Exp = "exp",
        /// Uniform: anything from 0 to twice the mean.
        Uniform = "uniform",
        /// All the same, which no program has.
        #[default]
        Fixed = "fixed",
        /// Nine of ten short, every tenth 20 times as long.
        Bimodal = "bimodal",
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// The rule by which vCPUs that read the PM timer at the same time share it, from today's
    /// practice to the best.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    PmTimerRule {
        /// A mutex for each read: what VMMs do today.
        Mutex = "mutex",
        /// S5's rule as published: a reader that finds the lock taken waits until it is free, and
        /// returns the time that it then finds.
        Published = "published",
        /// The same, but a loser waits only for the one update that it found.
        Refresh = "refresh",
        /// No reader waits for another, but all share the latest time returned: for clocks that may
        /// differ from CPU to CPU.
        Clamped = "clamped",
        /// No reader waits for another, and nothing is shared: all trust the clock.
        LockFree = "lock-free",
    }
}
