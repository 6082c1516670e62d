//! What to do about it, and the shares that say so.

use crate::analysis::Times;

/// What to do; records have its name in lower case, with hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cure {
    /// Nothing: processors are busy with work.
    NothingToDo,
    /// Nothing about locks: threads wait for work, for time, or for each other's ends.
    FindWork,
    /// The holder ran: less to do under the lock, or more locks.
    ShortenSection,
    /// Threads have no processor: fewer threads, more processors, another lock.
    GiveProcessors,
    /// The group had no quota: a higher one, or fewer threads.
    RaiseQuota,
    /// The holder slept: not under the lock.
    #[serde(rename = "do-not-sleep-inside")]
    DontSleepInside,
    /// Readers take turns past writers that wait: writers first.
    LetWritersPass,
    /// The lock was free: waking its waiters takes too long.
    WakeSooner,
    /// All of a crowd are woken, and one of them has something to do: wake one.
    WakeOne,
    /// Holders wait for each other's locks: all of them in one order.
    TakeInOrder,
    /// The thread that had the lock is not there any more: release it first.
    ReleaseFirst,
    /// Threads are woken while the mutex is held that they need next: unlock first.
    UnlockFirst,
    /// The lock is a runtime's, which the program can only take less often.
    LeaveRuntime,
    /// Threads burn their processors in loops that wait.
    StopSpinning,
    /// Threads wait for something outside of the program.
    Unblock,
    /// Threads look, sleep for a moment, and look again.
    StopPolling,
    #[default]
    LookCloser,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Time in waits for locks, over the time of all threads.
    pub lock_share: f64,
    /// Time in waits for things outside of the program, over the time of all threads.
    pub outside_share: f64,
    /// Time in waits for work, over the time of all threads.
    pub work_share: f64,
    /// Processor time in loops that wait, over all processor time, by samples.
    pub spin_share: f64,
    /// The holders' part in all waits for locks.
    pub holder: Times,
    pub cure: Cure,
}

/// Returns a part as a share; 0 of nothing.
#[must_use]
pub fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
