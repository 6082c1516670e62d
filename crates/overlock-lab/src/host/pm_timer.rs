// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PM timer of a run, under one of the rules by which its readers share it.

use std::sync::{Mutex, PoisonError};

use overlock_host::Nanos;
use overlock_host::pm_timer::read::{Clamped, Lock, Mutexed, Pure, Refresh};
use overlock_host::pm_timer::{Clock, NoSci, PmTimer, Width};

use crate::clock;

/// How the vCPUs that read the PM timer at the same time share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PmTimerRule {
    /// A mutex for each read: what VMMs do today.
    Mutex,
    /// Whoever finds another reader at work waits for its result and returns that: S5's rule.
    Refresh,
    /// Nobody waits for anybody, but all share the latest time returned: for clocks that may differ
    /// from CPU to CPU.
    Clamped,
    /// Nobody waits for anybody, and nothing is shared: all trust the clock.
    LockFree,
}

/// The device.
#[derive(Debug)]
pub(super) enum Timer {
    Mutex(PmTimer<RunClock, Mutexed<StdLock>, NoSci>),
    Refresh(PmTimer<RunClock, Refresh, NoSci>),
    Clamped(PmTimer<RunClock, Clamped, NoSci>),
    LockFree(PmTimer<RunClock, Pure, NoSci>),
}

impl Timer {
    pub(super) fn new(rule: PmTimerRule, clock: clock::Clock) -> Self {
        let (width, clock) = (Width::Bits24, RunClock(clock));
        match rule {
            PmTimerRule::Mutex => {
                Self::Mutex(PmTimer::new(width, clock, Mutexed::new(StdLock::default()), NoSci))
            }
            PmTimerRule::Refresh => {
                Self::Refresh(PmTimer::new(width, clock, Refresh::default(), NoSci))
            }
            PmTimerRule::Clamped => {
                Self::Clamped(PmTimer::new(width, clock, Clamped::default(), NoSci))
            }
            // All of the laboratory rests on the time stamp counter being one on all CPUs.
            PmTimerRule::LockFree => Self::LockFree(PmTimer::new(width, clock, Pure, NoSci)),
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Mutex(timer) => timer.count(),
            Self::Refresh(timer) => timer.count(),
            Self::Clamped(timer) => timer.count(),
            Self::LockFree(timer) => timer.count(),
        }
    }
}

/// The clock of the run, for the device.
#[derive(Debug)]
pub(super) struct RunClock(clock::Clock);

impl Clock for RunClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.now_ns())
    }
}

/// The standard library's mutex.
#[derive(Debug, Default)]
pub(super) struct StdLock(Mutex<()>);

impl Lock for StdLock {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}
