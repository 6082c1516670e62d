//! The PM timer of a run, under one of the rules by which its readers share it.

use std::sync::{Mutex, PoisonError};

use crate::host::Nanos;
use crate::host::pm_timer::read::{Clamped, Mutexed, MutualExclusion, Published, Pure, ReadRule};
use crate::host::pm_timer::{NoSci, PmTimer, Width};
use overlock::Refresh;
use overlock::platform::Threads;
use overlock_bench::clock::Clock;
use overlock_results::PmTimerRule;

pub(super) fn reader(rule: PmTimerRule, clock: Clock) -> Box<dyn Fn() -> u32 + Send + Sync> {
    fn under<R>(rule: R, clock: Clock) -> Box<dyn Fn() -> u32 + Send + Sync>
    where
        R: ReadRule + Send + Sync + 'static,
    {
        let timer = PmTimer::new(Width::Bits24, move || Nanos(clock.now_ns()), rule, NoSci);
        Box::new(move || timer.count())
    }
    match rule {
        PmTimerRule::Mutex => under(Mutexed::<StdLock>::default(), clock),
        PmTimerRule::Published => under(Published::default(), clock),
        PmTimerRule::Refresh => under(Shared(Refresh::zeroed()), clock),
        PmTimerRule::Clamped => under(Clamped::default(), clock),
        // The whole laboratory relies on a time stamp counter that is the same on all CPUs.
        PmTimerRule::LockFree => under(Pure, clock),
    }
}

/// The rule of [`overlock::Refresh`]: a reader that finds a refresh under way waits for it and
/// returns its result. Its cells are those that the model checker tests; here they are real memory,
/// and a reader that waits for long halts on a futex.
struct Shared(Refresh<u64, Threads>);

impl ReadRule for Shared {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // Refreshes come one after the other, so the last one is the latest: no value is behind it.
        Nanos(self.0.join(|| clock().0.max(self.0.last())))
    }
}

#[derive(Default)]
struct StdLock(Mutex<()>);

impl MutualExclusion for StdLock {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}
