// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the shares mean, and what to do about it.

use crate::report::{HolderNs, Report, SiteReport};

/// What the threads of a word wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A lock: a mutex, a read-write lock.
    Lock,
    /// Work, an event, another thread: a condition variable, a barrier, a thread's end.
    Work,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Nothing about locks: they cost next to nothing.
    LeaveLocks,
    /// The holder ran: less to do under the lock, or more locks.
    ShortenSection,
    /// The holder had no processor: fewer threads, more processors, another lock.
    GiveProcessors,
    /// The holder's group had no quota: a higher one, or fewer threads.
    RaiseQuota,
    /// The holder slept: not under the lock.
    DontSleepInside,
    /// Readers take turns past writers that wait: writers first.
    LetWritersPass,
    /// The lock was free: waking its waiters takes too long.
    WakeSooner,
    /// Threads burn their processors in loops that wait.
    StopSpinning,
    /// Too little was seen.
    LookCloser,
}

impl Cure {
    /// Returns the name that records have.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cure::LeaveLocks => "leave-locks",
            Cure::ShortenSection => "shorten-section",
            Cure::GiveProcessors => "give-processors",
            Cure::RaiseQuota => "raise-quota",
            Cure::DontSleepInside => "do-not-sleep-inside",
            Cure::LetWritersPass => "let-writers-pass",
            Cure::WakeSooner => "wake-sooner",
            Cure::StopSpinning => "stop-spinning",
            Cure::LookCloser => "look-closer",
        }
    }
}

/// The diagnosis.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Time in waits for locks, over the time of all threads.
    pub lock_share: f64,
    /// Time in waits for work, over the time of all threads.
    pub work_share: f64,
    /// Processor time in loops that wait, over all processor time, by samples.
    pub spin_share: f64,
    /// The holders' part in all waits for locks.
    pub holder: HolderNs,
    /// What to do.
    pub cure: Cure,
}

/// Below this share of all threads' time, no cure of a lock can be noticed.
pub const NOTICEABLE: f64 = 0.02;
/// Loops that wait are common for a moment before each sleep; this is more than a moment.
const NOTICEABLE_SPINNING: f64 = 0.10;
/// Below this number of samples, their share says little.
const ENOUGH_SAMPLES: u64 = 20;

impl Verdict {
    /// Judges a report; `class` says what a place waits for.
    pub fn new(report: &Report, class: impl Fn(&SiteReport) -> Class) -> Self {
        let (mut holder, mut lock_ns, mut work_ns) = (HolderNs::default(), 0_u64, 0_u64);
        for site in &report.sites {
            match class(site) {
                Class::Lock => {
                    holder.add(&site.holder);
                    lock_ns += site.waited_ns;
                }
                Class::Work => work_ns += site.waited_ns,
            }
        }
        let spins: u64 = report.spins.iter().map(|spin| spin.samples).sum();
        let total = report.time.total();
        let lock_share = share(lock_ns, total);
        let spin_share = match spins {
            0..ENOUGH_SAMPLES => 0.0,
            _ => share(spins.saturating_mul(report.sample_ns), report.time.running).min(1.0),
        };
        // Spinning counts by what it takes of all threads' time, as waiting does.
        let spin_of_time = spin_share * share(report.time.running, total);
        let cure = if spin_share >= NOTICEABLE_SPINNING && spin_of_time >= lock_share {
            Cure::StopSpinning
        } else if lock_share < NOTICEABLE && report.time.unknown > total / 2 {
            Cure::LookCloser
        } else if lock_share < NOTICEABLE {
            Cure::LeaveLocks
        } else {
            cure_of(&holder)
        };
        Verdict { lock_share, work_share: share(work_ns, total), spin_share, holder, cure }
    }
}

/// Returns the cure for the largest part.
fn cure_of(holder: &HolderNs) -> Cure {
    let parts = [
        (holder.running, Cure::ShortenSection),
        (holder.preempted, Cure::GiveProcessors),
        (holder.throttled, Cure::RaiseQuota),
        (holder.blocked, Cure::DontSleepInside),
        (holder.free, Cure::WakeSooner),
        (holder.unknown, Cure::LookCloser),
    ];
    parts.into_iter().max_by_key(|(ns, _)| *ns).map_or(Cure::LookCloser, |(_, cure)| cure)
}

/// Returns a part as a share; 0 of nothing.
#[must_use]
pub fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
