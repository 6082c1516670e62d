//! What was found, and what to do about it, in a sentence or two.

use super::cures::{inside, processors, try_compare, unblock};
use super::worst::{NOTICED, Worst, percent, worst, worst_of};
use crate::units;
use overlock_trace::analysis::{State, WaitStats};
use overlock_trace::{Class, Cure, Finding, Findings, Kind, share};

/// Returns what costs the most time, and where, in words.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub(super) fn diagnosis(found: &Findings) -> String {
    let (verdict, time) = (&found.verdict, &found.report.time);
    if time.total() == 0 {
        return "The program ended before anything could be seen, so there is nothing to say."
            .into();
    }
    let of = |state| percent(share(time.of(state), time.total()));
    let (waited, holder) = (percent(verdict.lock_share), &verdict.holder);
    let lock = worst_of(found, Class::Lock);
    let state = match verdict.cure {
        Cure::NothingToDo => {
            let what = match found.facts.hides {
                Some(_) => "Threads",
                None => "Not a lock problem: threads",
            };
            return format!(
                "{what} were busy with work, for {} of all thread time on processors and for {} \
                 waiting for one; {waited} was spent waiting for locks.",
                of(State::Running),
                of(State::Preempted)
            );
        }
        Cure::FindWork => {
            let work = worst_of(found, Class::Work);
            let Worst { place, what, share, .. } = work;
            let all = percent(verdict.work_share);
            return format!(
                "Threads wait for something to do: {all} of all thread time, most at {place} ({what}, \
                 {share}). {waited} was spent waiting for locks."
            );
        }
        Cure::StopSpinning if found.backs_off().is_some() => {
            let loops = worst(found, found.backs_off().cloned());
            return format!(
                "Threads wait in a loop of their own at {}: for {} of all thread time they sleep \
                 there before they look again, and {} of the time on processors goes into loops \
                 that wait.",
                loops.place,
                loops.share,
                percent(found.cpu_share(found.loops.iter().map(|one| one.samples).sum()))
            );
        }
        Cure::StopSpinning => {
            return format!(
                "{} of the time on processors was spent in loops that wait; {waited} of all \
                 thread time was spent asleep for locks.",
                percent(verdict.spin_share)
            );
        }
        Cure::Unblock => {
            let outside = worst_of(found, Class::Outside);
            if outside.is(Kind::Stop) {
                return format!(
                    "Other threads stop the program's threads: for {} of all thread time these were \
                     stopped at {}; {waited} was spent waiting for locks.",
                    outside.share, outside.place
                );
            }
            return format!(
                "{} of all thread time was spent waiting for what is outside of the program, most \
                 at {} ({}, {}).",
                percent(verdict.outside_share),
                outside.place,
                outside.what,
                outside.share
            );
        }
        Cure::StopPolling => {
            let polls = worst(found, found.polls().cloned());
            let row = polls.finding.as_ref().map(|one| &one.row);
            let each = row.map_or(0, |row| row.waited_ns / row.waits.max(1));
            return format!(
                "Threads look for something, and sleep before they look again: {} of all thread \
                 time at {}, {} at a time.",
                polls.share,
                polls.place,
                units::time(each as f64)
            );
        }
        Cure::WakeOne => {
            return format!("{} there was nothing to do for the one that woke.", crowd(found));
        }
        Cure::GiveProcessors if verdict.lock_share < NOTICED => {
            return format!(
                "Threads lack processors: for {} of all thread time they could run and had none; \
                 {waited} was spent waiting for locks.",
                of(State::Preempted)
            );
        }
        Cure::RaiseQuota => {
            return format!(
                "The CPU quota of the program's group is spent: for {} of all thread time threads \
                 could run and were stopped; {waited} was spent waiting for locks, {} of that while \
                 the holder was stopped.",
                of(State::Throttled),
                percent(share(holder.of(State::Throttled), holder.total()))
            );
        }
        Cure::LetWritersPass => {
            let behind: u64 = found.rows.iter().map(|one| one.behind_readers_ns).sum();
            return format!(
                "{waited} of all thread time was spent waiting for locks; {} of that by writers \
                 while readers took turns.",
                percent(share(behind, holder.total()))
            );
        }
        Cure::LookCloser => match gap(found).0 {
            Some(said) => return said,
            None => State::Unknown,
        },
        Cure::GiveProcessors => State::Preempted,
        _ => holder.largest(),
    };
    let meanwhile = during(found, state);
    let part = percent(share(holder.of(state), holder.total()));
    format!(
        "{waited} of all thread time was spent waiting for locks, most at {} ({}, {}); {part} of it \
         {meanwhile}.",
        lock.place, lock.what, lock.share
    )
}

/// Says where a crowd is woken, and how often that does little.
fn crowd(found: &Findings) -> String {
    let crowd = worst(found, found.crowd().cloned());
    let row = crowd.finding.as_ref().map(|one| &one.row);
    let count = |of: fn(&WaitStats) -> u64| units::count(row.map_or(0, of) as f64);
    format!(
        "All threads that wait at {} ({}) are woken at once, and {} of {} times",
        crowd.place,
        crowd.what,
        count(|row| row.kept.unwrap_or(row.for_nothing)),
        count(|row| row.waits)
    )
}

fn during(found: &Findings, state: State) -> String {
    match state {
        State::Late if found.knows_free() => {
            "while the lock was free and the next holder late".into()
        }
        State::Late => {
            "while the next holder was late: the lock was free, or held by others".into()
        }
        State::Unknown => "for a holder that is not known".into(),
        state => format!("while the holder {}", state.did()),
    }
}

pub(super) fn advice(found: &Findings) -> String {
    let lock = worst_of(found, Class::Lock);
    let place = &lock.place;
    match found.verdict.cure {
        Cure::NothingToDo if found.facts.hides.is_none() => {
            "Nothing to do here about waiting: make the work itself less.".into()
        }
        Cure::NothingToDo | Cure::FindWork => idle(found),
        Cure::ShortenSection => format!("Do less under the lock at {place}{}", split(found)),
        Cure::GiveProcessors => processors(found, place),
        Cure::RaiseQuota => quota(found),
        Cure::DontSleepInside => {
            let inside = lock.finding.as_ref().map(inside).unwrap_or_default();
            let more =
                if lock.is(Kind::Semaphore) { ", or let more threads in at once" } else { "" };
            format!(
                "The holders of {place} sleep inside the section{inside}: move that out of it{more}."
            )
        }
        Cure::LetWritersPass => format!(
            "Writers at {place} wait while readers take turns: the next one comes before the last \
             has left, so the lock is never free. Let writers go first \
             (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; std::shared_mutex prefers readers), \
             or read for shorter times."
        ),
        Cure::WakeSooner => format!(
            "Threads sleep for the lock at {place}, and it is free before they have woken: take it less \
             often, split it, or use one whose waiters stay awake for a moment{}",
            try_compare(found)
        ),
        Cure::WakeOne if found.crowd().is_some_and(|one| one.kind == Kind::Poll) => {
            "Let one thread wait for these files and hand on what comes, or wake one for each event \
             (EPOLLEXCLUSIVE; SO_REUSEPORT gives each thread a socket of its own)."
                .into()
        }
        Cure::WakeOne => "Wake one thread for each task (pthread_cond_signal, notify_one) instead \
                          of all of them."
            .into(),
        Cure::UnlockFirst => format!(
            "Threads are woken at {place} while the mutex is held that they need to go on: unlock it \
             before you signal, or do less between the two."
        ),
        Cure::TakeInOrder => format!(
            "The holders of the locks at {place} wait for each other in a circle (a deadlock): take \
             these locks in the same order everywhere."
        ),
        Cure::ReleaseFirst => format!(
            "The thread that has the lock at {place} is not there any more: it has ended, or a fork \
             has left it behind. Release locks before a thread ends, and take none in a forked \
             child before it runs another program."
        ),
        Cure::LeaveRuntime => runtime(&lock),
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
        Cure::Unblock => {
            let outside = worst_of(found, Class::Outside);
            unblock(&outside.what, outside.finding.as_ref())
        }
        Cure::StopPolling => "If they wait for another thread, a lock, a condition variable or a \
                              futex tells at once; a sleep tells late and costs processor time."
            .into(),
        Cure::LookCloser => gap(found).1.into(),
    }
}

/// Says how a lock can be split.
fn split(found: &Findings) -> String {
    let locks = found.of(Class::Lock);
    let Some(worst) = locks.first() else { return ".".into() };
    let address = worst.locks.first().filter(|_| worst.locks.len() == 1);
    let callers = locks.iter().filter(|one| address.is_some_and(|lock| one.locks.contains(lock)));
    match callers.count() {
        0..=2 => ", or split it: no other lock makes its sections shorter.".into(),
        count => format!(
            ", or split it: one lock is taken at {count} places here, and no other lock makes its \
             sections shorter."
        ),
    }
}

fn quota(found: &Findings) -> String {
    let quota = found.facts.quota.map(|cpus| format!(" ({} CPUs)", units::three(cpus)));
    format!(
        "Raise the quota of the program's group{}, or start no more threads than it pays for; there \
         were {} (GOMAXPROCS, OMP_NUM_THREADS, -XX:ActiveProcessorCount). No lock helps while \
         the whole group is stopped.",
        quota.unwrap_or_default(),
        found.report.threads
    )
}

fn runtime(lock: &Worst) -> String {
    match lock.finding.as_ref().map(|one| one.kind) {
        Some(Kind::Gil) => "One thread at a time runs Python code. Use processes, do the work in \
                            code that releases the GIL, or a build without it; no lock can be \
                            exchanged."
            .into(),
        Some(Kind::Gvl) => "One thread at a time runs Ruby code. Use processes or Ractors, or \
                            fewer threads; no lock can be exchanged."
            .into(),
        Some(Kind::Monitor) => format!(
            "One thread at a time is inside of a Java monitor (synchronized): take it less often at {}, \
             split it, or do less inside; jstack PID names it.",
            lock.place
        ),
        Some(kind) if kind.is_streams() => format!(
            "All threads write to one stream at {}, whose lock is the C library's own: format a whole \
             message first and write it at once, give each thread a buffer, or let one thread write.",
            lock.place
        ),
        Some(Kind::Loader) => format!(
            "The dynamic loader has one lock for the whole process: look up libraries and functions \
             once, and keep them, instead of at {}.",
            lock.place
        ),
        Some(Kind::Libc) => format!(
            "The lock is the C library's own ({}): call that function less often from {}, or another \
             one that takes no lock.",
            lock.what, lock.place
        ),
        _ => format!("The lock is the runtime's own: do less of what takes it, at {}.", lock.place),
    }
}

fn idle(found: &Findings) -> String {
    if let Some(runtime) = found.facts.hides {
        return format!(
            "{runtime} lets its own threads wait where no system call tells of it, so locks between \
             them are not seen here: use its own profile of locks, too."
        );
    }
    let work = worst_of(found, Class::Work);
    if work.is(Kind::Barrier) {
        return "The threads of a team wait for its slowest one: give them parts of the same length, \
                or more and smaller ones (OpenMP's schedule(dynamic)), or start fewer threads."
            .into();
    }
    let said = "Another lock would change next to nothing: find out why work, or an answer, comes \
                late, or start fewer threads.";
    match work.finding {
        Some(one) if one.kind == Kind::Poll && found.sees_no_wakers(&one) => {
            format!("{said} Whether threads are woken there for nothing is not seen: root sees it.")
        }
        _ => said.into(),
    }
}

/// Says why too little was seen, if that is not that holders are unknown, and how to see more: the
/// first reason that explains the others.
fn gap(found: &Findings) -> (Option<String>, &'static str) {
    let Findings { facts, verdict, report, .. } = found;
    let waited = format!("{} was spent waiting for locks.", percent(verdict.lock_share));
    let is_little = verdict.lock_share < NOTICED;
    if facts.is_secret {
        let said = "Nothing is known of this program's waits: this user may not see in which calls its \
                    threads sleep.";
        return (Some(said.into()), "Run this as root, or as the program's user.");
    }
    let unseen = share(report.time.of(State::Unknown), report.time.total());
    if unseen > 0.5 {
        let part = percent(unseen);
        let all = "of their time: they slept, or ran, all the while.";
        return (
            Some(format!("Nothing was seen of threads for {part} {all}")),
            "A thread is first seen when it gets or loses a processor: watch for longer, if the \
             program runs for longer.",
        );
    }
    if found.crowd().is_some() {
        let did = "the one that woke did next to nothing before it waited again";
        return (
            Some(format!("{} {did}. {waited}", crowd(found))),
            "If there was nothing to do, wake one thread for each task; if each found what it had \
             waited for, as in a group commit, what matters is who wakes them: --source preload \
             tells which it is, for programs that can preload a library.",
        );
    }
    if let Some(one) = found.open().filter(|one| is_little && one.kind == Kind::PyLock) {
        return pythons(found, one);
    }
    if let Some(one) = found.open().filter(|_| is_little) {
        let (unseen, advice) = match one.kind {
            Kind::Park => (
                "the code that parks",
                "Java tells which: jstack PID, or async-profiler's profile of locks.",
            ),
            _ => ("who ends that", "Run this as root, which tells who wakes whom."),
        };
        let Worst { share, place, what, .. } = worst(found, Some(one.clone()));
        let said = format!(
            "For {share} of all thread time, threads waited at {place} ({what}) for what may be a \
             lock, or work: {unseen} is not seen. {waited}"
        );
        return (Some(said), advice);
    }
    let unknown = Finding::together(found.rows.iter().filter(|one| one.kind == Kind::Unknown));
    let part = worst(found, unknown.into_iter().next()).share;
    let unknown = format!("What threads slept for is not known for {part} of all thread time;");
    let said = is_little.then(|| format!("{unknown} {waited}"));
    let (locks, is_looked) = (found.of(Class::Lock), |one: &Finding| one.row.looked.is_some());
    let missed = locks.first().is_some_and(is_looked);
    // Looks know who holds a mutex of the C library, and only its locks can be preloaded.
    let is_of_libc = locks.first().is_none_or(|one| one.kind != Kind::Mutex);
    let advice = match (missed, facts.is_by_looks) {
        (true, _) => "A preloaded library does not see who holds these locks: run this as root.",
        (_, true) if facts.can_preload && is_of_libc => {
            "Looks know the holders of the GNU C library's mutexes only. Other sources know more: \
             run this as root, or start the program with --source preload."
        }
        (_, true) => "Looks know the holders of the GNU C library's mutexes only: root sees more.",
        _ if found.rows.iter().any(is_looked) => {
            "A preloaded library looks only seldom at plain system calls, such as a read of a \
             socket or a pipe: root, or --source looks, sees them."
        }
        _ => "Watch for longer, or give the program debug information.",
    };
    (said, advice)
}

/// Says that it is not known what threads waited for by locks of Python.
fn pythons(found: &Findings, one: &Finding) -> (Option<String>, &'static str) {
    let of_kind = found.rows.iter().filter(|row| row.kind == one.kind);
    let all = share(of_kind.map(|row| row.row.waited_ns).sum(), found.report.time.total());
    let said = format!(
        "For {} of all thread time, threads waited for Python's locks, most at {}: whether as \
         locks, or for work, is not known; {} was spent waiting for others.",
        percent(all),
        one.path(),
        percent(found.verdict.lock_share)
    );
    let advice = "A python with debug information would tell, and py-spy dump --pid PID names \
                  the Python functions that wait.";
    (Some(said), advice)
}
