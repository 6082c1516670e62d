// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, and what to do about it, in a sentence or two.

use overlock_trace::{Class, Cure, share};
use overlock_tracer::{Finding, Findings};

/// Why too little was seen.
enum Gap {
    /// This user may not see it.
    Secret,
    /// Threads did nothing that is seen.
    Unseen,
    /// They waited by calls that are not seen.
    Missed,
    /// Looks do not know the holders.
    ByLooks,
    /// Nothing is known about that.
    Unknown,
}

impl Gap {
    /// Returns the first reason that explains the others.
    fn of(found: &Findings) -> Self {
        if found.is_secret {
            Gap::Secret
        } else if found.is_unseen() {
            Gap::Unseen
        } else if found.misses_all() {
            Gap::Missed
        } else if found.is_by_looks {
            Gap::ByLooks
        } else {
            Gap::Unknown
        }
    }
}

/// Shows a share in percent.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        part if part < 1.0 => "< 1 %".into(),
        part => format!("{part:.0} %"),
    }
}

/// Returns the share of the time waited for locks, and the largest part of it, in words.
pub(super) fn diagnosis(found: &Findings) -> String {
    let (verdict, time) = (&found.verdict, &found.report.time);
    if time.total() == 0 {
        return "The program ended before anything could be seen, so there is nothing to say."
            .into();
    }
    let waited = percent(verdict.lock_share);
    let holder = &verdict.holder;
    let (ns, meanwhile) = match verdict.cure {
        Cure::LeaveLocks => {
            return format!(
                "Not a lock problem: {waited} of all thread time was spent waiting for locks."
            );
        }
        Cure::StopSpinning => {
            return format!(
                "{} of the time on processors was spent in loops that wait; {waited} of all \
                 thread time was spent asleep for locks.",
                percent(verdict.spin_share)
            );
        }
        Cure::ShortenSection => (holder.running, "while the holder ran"),
        Cure::GiveProcessors => (holder.preempted, "while the holder had no processor"),
        Cure::RaiseQuota => (holder.throttled, "while the holder's CPU quota was spent"),
        Cure::DontSleepInside => (holder.blocked, "while the holder slept itself"),
        Cure::WakeSooner => (holder.free, "while the lock was free and its next holder late"),
        Cure::LetWritersPass => {
            let behind = found.waits.iter().map(|one| one.behind_readers_ns).sum();
            (behind, "by writers while readers took turns")
        }
        Cure::LookCloser => match Gap::of(found) {
            Gap::Secret => {
                return "Nothing is known of this program's waits: this user may not see in which \
                        calls its threads sleep."
                    .into();
            }
            Gap::Unseen => {
                return format!(
                    "Nothing was seen of threads for {} of their time: they slept, or ran, all \
                     the while.",
                    percent(share(time.unknown, time.total()))
                );
            }
            Gap::Missed => {
                return format!(
                    "{waited} of all thread time was spent waiting for locks, as far as was seen; \
                     for {} threads slept in futexes by calls of their own.",
                    percent(found.unseen_share)
                );
            }
            Gap::ByLooks | Gap::Unknown => (holder.unknown, "for a holder that is not known"),
        },
    };
    let part = percent(share(ns, holder.total()));
    format!("{waited} of all thread time was spent waiting for locks; {part} of that {meanwhile}.")
}

/// Says what to do.
pub(super) fn advice(found: &Findings) -> String {
    let locks = Finding::together(found.waits.iter().filter(|one| one.class == Class::Lock));
    let worst = locks.first();
    let place = worst.map_or("the lock", |one| &one.place);
    match found.verdict.cure {
        Cure::LeaveLocks => {
            let starved = share(found.report.time.preempted, found.report.time.total());
            let processors = match starved > 0.1 {
                true => " Threads lack processors: fewer threads, or more processors.",
                false => "",
            };
            format!("Another lock would change next to nothing.{processors}")
        }
        Cure::ShortenSection => format!(
            "Do less under the lock at {place}, or split it: no other lock makes its sections \
             shorter."
        ),
        Cure::GiveProcessors => format!(
            "The holders of {place} lose their processor inside the section. Use no more threads \
             than processors, or try: overlock compare -- PROGRAM"
        ),
        Cure::RaiseQuota => "Raise the CPU quota of the program's group, or start fewer threads: \
                             no lock helps while the whole group is stopped."
            .into(),
        Cure::DontSleepInside => {
            let inside = worst.and_then(|one| one.blocked_in.first());
            let inside = inside.map(|(what, _)| format!(" ({what})")).unwrap_or_default();
            format!("The holders of {place} sleep inside the section{inside}: move that out of it.")
        }
        Cure::LetWritersPass => format!(
            "Writers at {place} wait while readers take turns: the next one comes before the last \
             has left, so the lock is never free. Let writers go first \
             (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; std::shared_mutex prefers readers), \
             or read for shorter times."
        ),
        Cure::WakeSooner => format!(
            "The lock at {place} is handed to threads that first have to be woken. A lock whose \
             waiters stay awake for a moment avoids that; try: overlock compare -- PROGRAM"
        ),
        Cure::StopSpinning => {
            let place = found.loops.first().map_or("?", |one| &one.place);
            let starved: u64 = found.loops.iter().map(|one| one.while_others_starved).sum();
            let all: u64 = found.loops.iter().map(|one| one.samples).sum();
            format!(
                "The worst loop is at {place}. For {} of that time another thread of the program \
                 could run and had no processor. Use fewer threads, or waits that sleep.",
                percent(share(starved, all))
            )
        }
        Cure::LookCloser => closer(&Gap::of(found)).into(),
    }
}

/// Says how to see more.
fn closer(gap: &Gap) -> &'static str {
    match gap {
        Gap::Secret => "Run this as root, or as the program's user.",
        Gap::Unseen => {
            "A thread is first seen when it gets or loses a processor: watch for longer, if the \
             program runs for longer."
        }
        Gap::Missed => {
            "A preloaded library does not see these waits. Look at the threads instead: overlock \
             trace --source looks"
        }
        Gap::ByLooks => {
            "Looks know the holders of the GNU C library's mutexes only. Other sources know more: \
             run this as root, or start the program with --source preload."
        }
        Gap::Unknown => "Watch for longer, or give the program debug information.",
    }
}
