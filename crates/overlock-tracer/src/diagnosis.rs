// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, and what to do about it, in a sentence or two.

use crate::finding::{Finding, Findings, Loop};
use overlock_trace::{Class, Cure, NOTICEABLE, share};

/// Shows a share in percent.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        part if part < 1.0 => "< 1 %".into(),
        part => format!("{part:.0} %"),
    }
}

impl Findings {
    /// Returns the share of the time waited for locks, and the largest part of it, in words.
    #[must_use]
    pub fn diagnosis(&self) -> String {
        let verdict = &self.verdict;
        if self.report.time.total() == 0 {
            return "The program ended before anything could be seen, so there is nothing to say."
                .into();
        }
        let waited = percent(verdict.lock_share);
        let total = verdict.holder.total();
        let part = |ns| percent(share(ns, total));
        let holder = &verdict.holder;
        match verdict.cure {
            Cure::LeaveLocks => {
                format!("Not a lock problem: {waited} of all thread time was spent waiting for locks.")
            }
            Cure::LookCloser if self.is_secret => {
                "Nothing is known of this program's waits: this user may not see in which calls its threads sleep."
                    .into()
            }
            Cure::LookCloser if self.is_unseen() => format!(
                "Nothing was seen of threads for {} of their time: they slept, or ran, all the while.",
                percent(share(self.report.time.unknown, self.report.time.total()))
            ),
            Cure::LookCloser if self.misses_all() => format!(
                "{waited} of all thread time was spent waiting for locks, as far as was seen; for {} threads \
                 slept in futexes by calls of their own.",
                percent(self.unseen_share)
            ),
            Cure::StopSpinning => format!(
                "{} of the time on processors was spent in loops that wait; {waited} of all thread time \
                 was spent asleep for locks.",
                percent(verdict.spin_share)
            ),
            cure => {
                let (ns, meanwhile) = match cure {
                    Cure::GiveProcessors => (holder.preempted, "while the holder had no processor"),
                    Cure::RaiseQuota => (holder.throttled, "while the holder's CPU quota was spent"),
                    Cure::DontSleepInside => (holder.blocked, "while the holder slept itself"),
                    Cure::WakeSooner => {
                        (holder.free, "while the lock was free and its next holder late")
                    }
                    Cure::LetWritersPass => {
                        let behind = self.waits.iter().map(|one| one.behind_readers_ns).sum();
                        (behind, "by writers while readers took turns")
                    }
                    Cure::LookCloser => (holder.unknown, "for a holder that is not known"),
                    _ => (holder.running, "while the holder ran"),
                };
                format!(
                    "{waited} of all thread time was spent waiting for locks; {} of that {meanwhile}.",
                    part(ns)
                )
            }
        }
    }

    /// Says what to do.
    #[must_use]
    pub fn advice(&self) -> String {
        let locks = Finding::together(self.waits.iter().filter(|one| one.class == Class::Lock));
        let worst = locks.first();
        let place = worst.map_or("the lock", |one| &one.place);
        match self.verdict.cure {
            Cure::LeaveLocks => {
                let starved = share(self.report.time.preempted, self.report.time.total());
                match starved > 0.1 {
                    true => {
                        "Another lock would change next to nothing. Threads lack processors: fewer \
                             threads, or more processors."
                            .into()
                    }
                    false => "Another lock would change next to nothing.".into(),
                }
            }
            Cure::ShortenSection => format!(
                "Do less under the lock at {place}, or split it: no other lock makes its sections shorter."
            ),
            Cure::GiveProcessors => format!(
                "The holders of {place} lose their processor inside the section. Use no more threads than \
                 processors, or try: overlock compare -- PROGRAM"
            ),
            Cure::RaiseQuota => {
                "Raise the CPU quota of the program's group, or start fewer threads: no \
                                 lock helps while the whole group is stopped."
                    .into()
            }
            Cure::DontSleepInside => {
                let inside = worst.and_then(|one| one.blocked_in.first());
                let inside = inside.map(|(what, _)| format!(" ({what})")).unwrap_or_default();
                format!("The holders of {place} sleep inside the section{inside}: move that out of it.")
            }
            Cure::LetWritersPass => format!(
                "Writers at {place} wait while readers take turns: the next one comes before the last has left, \
                 so the lock is never free. Let writers go first \
                 (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; std::shared_mutex prefers readers), or read \
                 for shorter times."
            ),
            Cure::WakeSooner => format!(
                "The lock at {place} is handed to threads that first have to be woken. A lock whose \
                 waiters stay awake for a moment avoids that; try: overlock compare -- PROGRAM"
            ),
            Cure::StopSpinning => {
                let place = self.loops.first().map_or("?", |one| &one.place);
                let starved: u64 = self.loops.iter().map(|one| one.while_others_starved).sum();
                let all: u64 = self.loops.iter().map(|one| one.samples).sum();
                format!(
                    "The worst loop is at {place}. For {} of that time another thread of the program could \
                     run and had no processor. Use fewer threads, or waits that sleep.",
                    percent(share(starved, all))
                )
            }
            Cure::LookCloser if self.misses_all() => {
                "A preloaded library does not see these waits. Look at the threads instead: \
                 overlock trace --source looks"
                    .into()
            }
            Cure::LookCloser if self.is_secret => "Run this as root, or as the program's user.".into(),
            Cure::LookCloser if self.is_unseen() => {
                "A thread is first seen when it gets or loses a processor: watch for longer, if the program runs for \
                 longer."
                    .into()
            }
            Cure::LookCloser if self.is_by_looks => {
                "Looks know the holders of the GNU C library's mutexes only. Other sources know more: run this as \
                 root, or start the program with --source preload."
                    .into()
            }
            Cure::LookCloser => "Watch for longer, or give the program debug information.".into(),
        }
    }

    /// Returns the share of all processor time in a loop, by samples.
    #[must_use]
    pub fn cpu_share(&self, one: &Loop) -> f64 {
        let ns = one.samples.saturating_mul(self.report.sample_ns);
        share(ns, self.report.time.running).min(1.0)
    }

    /// Returns whether threads were not seen for most of their time.
    fn is_unseen(&self) -> bool {
        self.report.time.unknown > self.report.time.total() / 2
    }

    /// Returns whether what was not seen may be worth more than what was.
    fn misses_all(&self) -> bool {
        self.verdict.lock_share < NOTICEABLE && self.unseen_share >= NOTICEABLE
    }
}
