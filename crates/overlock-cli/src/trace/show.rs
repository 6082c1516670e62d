// SPDX-License-Identifier: MIT OR Apache-2.0
//! The diagnosis, and the tables behind it.

use super::diagnosis::{advice, diagnosis, percent};
use crate::table::Table;
use crate::units;
use overlock_trace::{Class, share};
use overlock_tracer::{Finding, Findings};

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
        lines.push("\nWaits for locks, and what the holder did meanwhile:".into());
        lines.push(locks_table(&locks));
        lines.extend(locks.iter().filter_map(|one| sleeping(one)));
    }
    let work = of(Class::Work);
    let work: Vec<&Finding> = work.iter().take(top).collect();
    if !work.is_empty() {
        lines.push("\nWaits for work, events and threads (not for locks):".into());
        lines.push(work_table(&work));
    }
    if !found.loops.is_empty() {
        lines.push("\nLoops that wait on a processor:".into());
        lines.push(loops_table(found, top));
    }
    lines.join("\n").trim_end().to_owned()
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

fn loops_table(found: &Findings, top: usize) -> String {
    let mut table = Table::new(&["where", "of CPU time", "while others lacked a CPU"]);
    for one in found.loops.iter().take(top) {
        table.row(vec![
            cut(&one.place),
            percent(found.cpu_share(one)),
            percent(share(one.while_others_starved, one.samples)),
        ]);
    }
    table.to_string()
}
