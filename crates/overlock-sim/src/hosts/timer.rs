//! The PM timer of a run, under one of the rules by which its readers share it.
//!
//! The rules are those of `overlock_vcpu::host` and `overlock`. Their accesses to their own memory
//! are charged as accesses to one line that all readers share: a read-modify-write when a reader
//! tries to become the updater, a store when it has finished, and a load for each check by a reader
//! that waits.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::Refresh;
use overlock::atomic::{Atomic, ConstAtomic};
use overlock_results::PmTimerRule;
use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::pm_timer::read::{Clamped, Mutexed, MutualExclusion, Pure, ReadRule};
use overlock_vcpu::host::pm_timer::{NoSci, PmTimer, Width};

use super::machine::calls::{Timed, is_on_host, relax, spend, sync, with};
use super::platform::OnHost;

/// Returns what reads the timer under `rule`, on a vCPU.
pub(crate) fn reader(rule: PmTimerRule) -> Box<dyn Fn() -> u32> {
    fn under(rule: impl ReadRule + 'static) -> Box<dyn Fn() -> u32> {
        let timer = PmTimer::new(Width::Bits24, now, rule, NoSci);
        Box::new(move || timer.count())
    }
    match rule {
        PmTimerRule::Mutex => under(Mutexed::<Spin>::default()),
        PmTimerRule::Published => under(Tried::default()),
        PmTimerRule::Refresh => under(Shared(Refresh::zeroed())),
        PmTimerRule::Clamped => under(Counted(Timed::ZERO, Clamped::default())),
        PmTimerRule::LockFree => under(Pure),
    }
}

/// The rule of [`Clamped`], whose one access to what it shares costs time.
#[derive(Debug)]
struct Counted(Timed<u32>, Clamped);

impl ReadRule for Counted {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        self.0.fetch_add(1, Relaxed);
        self.1.read(clock)
    }
}

/// The rule of [`Published`](overlock_vcpu::host::pm_timer::read::Published), on a lock whose accesses
/// cost time: a loser only reads, and the time lies on the lock's line.
#[derive(Debug, Default)]
struct Tried {
    lock: Spin,
    last: AtomicU64,
}

impl ReadRule for Tried {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        if self.lock.try_lock() {
            self.last.fetch_max(clock().0, Relaxed);
            self.lock.unlock();
        } else {
            waiting(|| {
                while self.lock.is_locked() {
                    relax(false);
                }
            });
        }
        Nanos(self.last.load(Relaxed))
    }
}

/// Books the time of a reader's wait for another: what S5 counts as `spin_lock` and as
/// `_spin_barrier`.
fn waiting(wait: impl FnOnce()) {
    let from = with(|m| m.cpu().at);
    wait();
    if !is_on_host() {
        with(|m| {
            let cpu = m.cpu();
            cpu.accounts.pm_wait_ns += cpu.at.saturating_sub(from);
        });
    }
}

/// The rule of [`overlock::Refresh`], on cells whose accesses cost time: all of them on one line,
/// wherever the timer lies.
#[derive(Debug)]
#[repr(align(128))]
struct Shared(Refresh<u64, OnHost<true>>);

impl ReadRule for Shared {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        // Refreshes run one after another, so the last one is the latest and this never goes back.
        Nanos(self.0.join(|| clock().0.max(self.0.last())))
    }
}

/// The clock of the run, for the device; the rest of the device's work is in its price.
fn now() -> Nanos {
    if is_on_host() {
        // The device is created before the run begins.
        return Nanos::ZERO;
    }
    spend(with(|m| m.costs.device));
    sync();
    Nanos(with(|m| m.cpu().at))
}

/// A spin lock that the first CPU to try takes, without any back-off: Xen's at that time.
#[derive(Debug, Default)]
struct Spin(Timed<u32>);

impl Spin {
    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    fn try_lock(&self) -> bool {
        // ORDERING: Acquire, with the Release of `unlock`.
        !self.is_locked() && self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    fn unlock(&self) {
        // ORDERING: Release, with the Acquire of `try_lock`.
        self.0.store(0, Release);
    }
}

impl MutualExclusion for Spin {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        waiting(|| {
            while !self.try_lock() {
                relax(false);
            }
        });
        let result = section();
        self.unlock();
        result
    }
}
