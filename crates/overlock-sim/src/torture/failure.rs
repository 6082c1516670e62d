//! What went wrong, and which oracle noticed.

use std::fmt;

use overlock_results::named;

named! {
    /// A question that the machine asks about every run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Property {
        /// Does at most one CPU hold a lock?
        Exclusion = "exclusion",
        /// Is a waiter of a free lock awake, or about to be woken? Timers and luck do not count.
        LostWakeup = "lost-wakeup",
        /// Is a free lock soon taken if a CPU that may take it has a processor?
        Progress = "progress",
        /// Are waiters in the queue served in the order in which they joined it?
        Order = "order",
        /// Is the queue head passed no more often than the lock allows, and never once it has
        /// disabled stealing?
        Bypass = "bypass",
        /// Do CPUs that have released a lock leave it alone? Its next owner may free it.
        Freed = "freed",
        /// Is at most one CPU kicked for each acquisition that can follow?
        Kicks = "kicks",
        /// Does a timed lock give up neither before its deadline nor long after?
        Deadline = "deadline",
        /// When all CPUs have finished, is the lock unlocked, and are the entries of the table of
        /// waiters as before?
        Residue = "residue",
        /// Is a shared value whole, and as new as the call promises?
        Freshness = "freshness",
        /// Does the lock's own code panic?
        Panic = "panic",
    }
}

/// The first thing that went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub oracle: Property,
    /// When, in virtual nanoseconds since the run began.
    pub at_ns: u64,
    /// The CPU that made the last step.
    pub cpu: usize,
    pub lock: Option<usize>,
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns, cpu {}", self.oracle.name(), self.at_ns, self.cpu)?;
        if let Some(lock) = self.lock {
            write!(f, ", lock {lock}")?;
        }
        write!(f, ": {}", self.text)
    }
}
