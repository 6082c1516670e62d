// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong, and which oracle noticed.

use std::fmt;

/// A question that is asked of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    /// Does one CPU at most hold a lock?
    Exclusion,
    /// Is a waiter of a free lock awake, or is somebody about to wake it? Timers and luck do not
    /// count.
    LostWakeup,
    /// Is a free lock taken soon when somebody who may take it has a processor?
    Progress,
    /// Are waiters in the queue served in the order in which they joined it?
    Order,
    /// Is the queue head passed no more often than the lock says, and never once it has disabled
    /// stealing?
    Bypass,
    /// Is a lock left alone by those who have released it? Its next owner may free it.
    Freed,
    /// Is at most one CPU kicked for each acquisition that can follow?
    Kicks,
    /// Does a timed lock give up neither before its deadline nor long after?
    Deadline,
    /// When everybody has finished, is the lock unlocked and the table of waiters as empty as
    /// before?
    Residue,
    /// Is a shared value whole, and as new as the call promises?
    Freshness,
    /// Does the lock's own code panic?
    Panic,
}

impl Oracle {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::LostWakeup => "lost-wakeup",
            Self::Progress => "progress",
            Self::Order => "order",
            Self::Bypass => "bypass",
            Self::Freed => "freed",
            Self::Kicks => "kicks",
            Self::Deadline => "deadline",
            Self::Residue => "residue",
            Self::Freshness => "freshness",
            Self::Panic => "panic",
        }
    }
}

/// The first thing that went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Who noticed.
    pub oracle: Oracle,
    /// When, in virtual nanoseconds since the run began.
    pub at_ns: u64,
    /// The CPU that made the last step.
    pub cpu: usize,
    /// The lock, if it concerns one.
    pub lock: Option<usize>,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns, cpu {}", self.oracle.name(), self.at_ns, self.cpu)?;
        if let Some(lock) = self.lock {
            write!(f, ", lock {lock}")?;
        }
        write!(f, ": {}", self.text)
    }
}
