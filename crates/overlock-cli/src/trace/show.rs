// SPDX-License-Identifier: MIT OR Apache-2.0
//! The diagnosis in words, and the tables behind it.

use crate::table::Table;
use crate::units;
use overlock_trace::{Class, Cure, NOTICEABLE};
use overlock_tracer::{Finding, Findings, Loop};

/// Says what was found; the first line is the diagnosis.
pub(crate) fn text(found: &Findings, top: usize) -> String {
    if found.report.time.total() == 0 {
        return diagnosis(found);
    }
    let mut lines = vec![diagnosis(found), advice(found)];
    lines.extend(evidence(found));
    let of = |class| Finding::together(found.waits.iter().filter(|one| one.class == class));
    let locks = of(Class::Lock);
    let locks: Vec<&Finding> = locks.iter().take(top).collect();
    if !locks.is_empty() {
        lines.push(String::new());
        lines.push("Waits for locks, and what the holder did meanwhile:".into());
        lines.push(locks_table(&locks));
        lines.extend(locks.iter().filter_map(|one| sleeping(one)));
    }
    let work = of(Class::Work);
    let work: Vec<&Finding> = work.iter().take(top).collect();
    if !work.is_empty() {
        lines.push(String::new());
        lines.push("Waits for work, events and threads (not for locks):".into());
        lines.push(work_table(&work));
    }
    if !found.loops.is_empty() {
        lines.push(String::new());
        lines.push("Loops that wait on a processor:".into());
        lines.push(loops_table(found, top));
    }
    lines.join("\n").trim_end().to_owned()
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        part if part < 1.0 => "< 1 %".into(),
        part => format!("{part:.0} %"),
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Returns the share of the time waited for locks, and the largest part of it, in words.
pub(crate) fn diagnosis(found: &Findings) -> String {
    let verdict = &found.verdict;
    if found.report.time.total() == 0 {
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
        Cure::LookCloser if found.is_secret => {
            "Nothing is known of this program's waits: this user may not see in which calls its threads sleep."
                .into()
        }
        Cure::LookCloser if is_unseen(found) => format!(
            "Nothing was seen of threads for {} of their time: they slept, or ran, all the while.",
            percent(share(found.report.time.unknown, found.report.time.total()))
        ),
        Cure::LookCloser if misses_all(found) => format!(
            "{waited} of all thread time was spent waiting for locks, as far as was seen; for {} threads \
             slept in futexes by calls of their own.",
            percent(found.unseen_share)
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
                    let behind = found.waits.iter().map(|one| one.behind_readers_ns).sum();
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
fn advice(found: &Findings) -> String {
    let locks = Finding::together(found.waits.iter().filter(|one| one.class == Class::Lock));
    let worst = locks.first();
    let place = worst.map_or("the lock", |one| &one.place);
    match found.verdict.cure {
        Cure::LeaveLocks => {
            let starved = share(found.report.time.preempted, found.report.time.total());
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
            let place = found.loops.first().map_or("?", |one| &one.place);
            let starved: u64 = found.loops.iter().map(|one| one.while_others_starved).sum();
            let all: u64 = found.loops.iter().map(|one| one.samples).sum();
            format!(
                "The worst loop is at {place}. For {} of that time another thread of the program could \
                 run and had no processor. Use fewer threads, or waits that sleep.",
                percent(share(starved, all))
            )
        }
        Cure::LookCloser if misses_all(found) => {
            "A preloaded library does not see these waits. Look at the threads instead: \
             overlock trace --source looks"
                .into()
        }
        Cure::LookCloser if found.is_secret => "Run this as root, or as the program's user.".into(),
        Cure::LookCloser if is_unseen(found) => {
            "A thread is first seen when it gets or loses a processor: watch for longer, if the program runs for \
             longer."
                .into()
        }
        Cure::LookCloser if found.is_by_looks => {
            "Looks know the holders of the GNU C library's mutexes only. Other sources know more: run this as \
             root, or start the program with --source preload."
                .into()
        }
        Cure::LookCloser => "Watch for longer, or give the program debug information.".into(),
    }
}

/// Returns whether threads were not seen for most of their time.
fn is_unseen(found: &Findings) -> bool {
    found.report.time.unknown > found.report.time.total() / 2
}

/// Returns whether what was not seen may be worth more than what was.
fn misses_all(found: &Findings) -> bool {
    found.verdict.lock_share < NOTICEABLE && found.unseen_share >= NOTICEABLE
}

/// Says where the threads' time went, and what was not seen.
fn evidence(found: &Findings) -> Vec<String> {
    let time = &found.report.time;
    let total = time.total();
    let part = |ns| percent(share(ns, total));
    let mut lines = vec![format!(
        "{} threads, {} s: {} on processors, {} able to run without one, {} without quota, {} waiting \
         for locks, {} for work, {} asleep otherwise, {} unseen.",
        found.report.threads,
        units::three(found.report.elapsed_ns as f64 / 1e9),
        part(time.running),
        part(time.preempted),
        part(time.throttled),
        percent(found.verdict.lock_share),
        percent(found.verdict.work_share),
        part(time.blocked),
        part(time.unknown),
    )];
    if found.stopped_ns > time.throttled + found.report.elapsed_ns / 20 {
        lines.push(format!(
            "By the kernel's account, a CPU quota has stopped threads of the program's group for {}; \
             what is not in that column counts as able to run without a processor.",
            units::time(found.stopped_ns as f64)
        ));
    }
    if found.lost > 0 {
        lines.push(format!(
            "Events were lost {} times, because there were too many; what they hid counts as unknown.",
            found.lost
        ));
    }
    lines
}

/// Names one lock by its address, and several by their number.
pub(crate) fn lock_name(finding: &Finding) -> String {
    let name = match (finding.locks.len(), finding.locks.first()) {
        (1, Some(address)) if *address > 0 => format!("{} {address:#x}", finding.kind.name()),
        (count, _) => format!("{count} x {}", finding.kind.name()),
    };
    match finding.processes {
        1 => name,
        count => format!("{name}, {count} processes"),
    }
}

/// Cuts a place so that a row fits into a terminal: its end names the function and the line.
fn cut(place: &str) -> String {
    const WIDEST: usize = 40;
    let length = place.chars().count();
    match length > WIDEST {
        true => format!("..{}", place.chars().skip(length + 2 - WIDEST).collect::<String>()),
        false => place.to_owned(),
    }
}

fn locks_table(locks: &[&Finding]) -> String {
    let mut table = Table::new(&[
        "where",
        "lock",
        "waits",
        "waited",
        "p50",
        "p99.9",
        "longest",
        "ran",
        "preempted",
        "throttled",
        "slept",
        "free",
        "unknown",
    ]);
    for one in locks {
        let mut cells = vec![cut(&one.place), lock_name(one)];
        cells.extend(lengths(one));
        let total = one.waits.holder.total();
        cells.extend(one.waits.holder.named().map(|(_, ns)| match ns {
            0 => "-".into(),
            _ => percent(share(ns, total)),
        }));
        table.row(cells);
    }
    table.to_string()
}

fn lengths(one: &Finding) -> [String; 5] {
    // Looks see no single wait from its beginning to its end.
    let at = |quantile| match one.waits.wait_ns.len() {
        0 => "-".into(),
        _ => units::time(one.waits.wait_ns.value_at_quantile(quantile) as f64),
    };
    [
        units::count(one.waits.waits as f64),
        units::time(one.waits.waited_ns as f64),
        at(0.5),
        at(0.999),
        units::time(one.waits.longest_ns as f64),
    ]
}

/// Says what the holders of a lock slept in, if that matters.
fn sleeping(one: &Finding) -> Option<String> {
    let total = one.waits.holder.total();
    if share(one.waits.holder.blocked, total) < 0.05 {
        return None;
    }
    let said: Vec<String> = one
        .blocked_in
        .iter()
        .take(3)
        .map(|(what, ns)| format!("{what} {}", percent(share(*ns, total))))
        .collect();
    Some(format!("Holders of {} slept in: {}.", one.place, said.join("; ")))
}

fn work_table(work: &[&Finding]) -> String {
    let mut table = Table::new(&["where", "what", "waits", "waited", "p50", "p99.9", "longest"]);
    for one in work {
        let mut cells = vec![cut(&one.place), lock_name(one)];
        cells.extend(lengths(one));
        table.row(cells);
    }
    table.to_string()
}

/// Returns the share of all processor time in a loop, by samples.
pub(crate) fn cpu_share(found: &Findings, one: &Loop) -> f64 {
    let ns = one.samples.saturating_mul(found.report.sample_ns);
    share(ns, found.report.time.running).min(1.0)
}

fn loops_table(found: &Findings, top: usize) -> String {
    let mut table = Table::new(&["where", "of CPU time", "while others lacked a CPU"]);
    for one in found.loops.iter().take(top) {
        table.row(vec![
            cut(&one.place),
            percent(cpu_share(found, one)),
            percent(share(one.while_others_starved, one.samples)),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests;
