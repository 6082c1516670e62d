//! The PM timer of a run, under one of the rules by which its readers share it.

use std::sync::{Mutex, PoisonError};

use crate::host::Nanos;
use crate::host::pm_timer::read::{Clamped, Lock, Mutexed, Published, Pure, ReadRule};
use crate::host::pm_timer::{Clock, NoSci, PmTimer, Width};
use overlock::Refresh;
use overlock::platform::Threads;
use overlock_bench::clock;
use overlock_results::PmTimerRule;

#[derive(Debug)]
pub(super) enum Timer {
    Mutex(PmTimer<RunClock, Mutexed<StdLock>, NoSci>),
    Published(PmTimer<RunClock, Published, NoSci>),
    Refresh(PmTimer<RunClock, Shared, NoSci>),
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
            PmTimerRule::Published => {
                Self::Published(PmTimer::new(width, clock, Published::default(), NoSci))
            }
            PmTimerRule::Refresh => {
                Self::Refresh(PmTimer::new(width, clock, Shared::default(), NoSci))
            }
            PmTimerRule::Clamped => {
                Self::Clamped(PmTimer::new(width, clock, Clamped::default(), NoSci))
            }
            // The whole laboratory relies on a time stamp counter that is the same on all CPUs.
            PmTimerRule::LockFree => Self::LockFree(PmTimer::new(width, clock, Pure, NoSci)),
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Mutex(timer) => timer.count(),
            Self::Published(timer) => timer.count(),
            Self::Refresh(timer) => timer.count(),
            Self::Clamped(timer) => timer.count(),
            Self::LockFree(timer) => timer.count(),
        }
    }
}

/// The rule of [`overlock::Refresh`]: a reader that finds a refresh under way waits for it and
/// returns its result. Its cells are those that the model checker tests; here they are real memory,
/// and a reader that waits for long halts on a futex.
#[derive(Debug)]
pub(super) struct Shared(Refresh<u64, Threads>);

impl Default for Shared {
    fn default() -> Self {
        Self(Refresh::zeroed())
    }
}

impl ReadRule for Shared {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // Refreshes come one after the other, so the last one is the latest: no value is behind it.
        Nanos(self.0.join(|| clock().0.max(self.0.last())))
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

#[derive(Debug, Default)]
pub(super) struct StdLock(Mutex<()>);

impl Lock for StdLock {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}
