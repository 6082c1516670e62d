//! The diagnosis, and the tables behind it.

use super::cures::chain;
use super::diagnosis::{advice, diagnosis};
use super::worst::percent;
use crate::table::Table;
use crate::units;
use overlock_trace::analysis::{State, Times};
use overlock_trace::{Class, Finding, Findings, Kind, share};

/// Says what was found; the first line is the diagnosis.
pub(crate) fn text(found: &Findings, top: usize) -> String {
    if found.report.time.total() == 0 {
        return diagnosis(found);
    }
    let mut lines = vec![diagnosis(found), advice(found)];
    lines.extend(evidence(found));
    let rows = Finding::together(&found.rows);
    if !rows.is_empty() {
        lines.push("\nWhere threads were off a processor, in parts of all thread time:".into());
        lines.push(rows_table(found, &rows, top));
    }
    let locks = found.of(Class::Lock);
    let locks: Vec<&Finding> = locks.iter().take(top).collect();
    if !locks.is_empty() {
        lines.push("\nWhat the locks' holders did meanwhile, in parts of each wait:".into());
        lines.push(locks_table(&locks));
        let told = |one: &&Finding| Some(format!("{}: {}", one.place, chain(one)?));
        lines.extend(locks.iter().filter_map(told));
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
    let part = |state| percent(share(time.of(state), total));
    let verdict = &found.verdict;
    let unknown = found.rows.iter().filter(|one| one.kind == Kind::Unknown);
    let unknown = share(unknown.map(|one| one.row.waited_ns).sum(), total);
    let mut lines = vec![format!(
        "{} {}, {} s: {} on processors, {} able to run without one, {} without quota; asleep {} for \
         locks, {} for what is outside, {} otherwise; {} unseen.",
        found.report.threads,
        if found.report.threads == 1 { "thread" } else { "threads" },
        units::three(found.report.elapsed_ns as f64 / 1e9),
        part(State::Running),
        part(State::Preempted),
        part(State::Throttled),
        percent(verdict.lock_share),
        percent(verdict.outside_share),
        percent((verdict.work_share - unknown).max(0.0)),
        percent(share(time.of(State::Unknown), total) + unknown),
    )];
    if found.facts.stopped_ns > time.of(State::Throttled) + found.report.elapsed_ns / 20 {
        lines.push(format!(
            "By the kernel's account, a CPU quota has stopped threads of the program's group for {}; \
             what is not in that column counts as able to run without a processor.",
            units::time(found.facts.stopped_ns as f64)
        ));
    }
    if found.facts.lost > 0 {
        let whose = match &found.facts.others {
            (part, most) if *part > 0.5 => {
                format!(" ({} of all were of other programs, most of {most})", percent(*part))
            }
            _ => String::new(),
        };
        lines.push(format!(
            "Events were lost {} times, because there were too many{whose}; what they hid counts as \
             unknown.",
            found.facts.lost
        ));
    }
    if found.facts.cost > 0.0 {
        let warning = match found.facts.cost > MUCH {
            true => ": the program was slower than without, and its shares may be others",
            false => "",
        };
        lines.push(format!(
            "Tracing took {} of the processors' time{warning}.",
            percent(found.facts.cost)
        ));
    }
    lines
}

/// Above this part of the processor time, tracing changes what it sees.
const MUCH: f64 = 0.05;

/// Names one lock by its address, and several by their number.
pub(crate) fn lock_name(finding: &Finding) -> String {
    let name = match (finding.locks.len(), finding.locks.first()) {
        (0, _) => finding.what.clone(),
        (1, Some(address)) if *address > 0 => format!("{} {address:#x}", finding.what),
        (1, _) => finding.what.clone(),
        (count, _) => format!("{count} x {}", finding.what),
    };
    match finding.processes {
        1 => name,
        count => format!("{name}, {count} processes"),
    }
}

/// Cuts a text so that a row fits into a terminal; a place is known by its beginning.
fn cut(text: &str, widest: usize) -> String {
    match text.chars().count() > widest {
        true => format!("{}..", text.chars().take(widest - 2).collect::<String>()),
        false => text.to_owned(),
    }
}

const PLACE: usize = 56;
const WHAT: usize = 34;

fn rows_table(found: &Findings, rows: &[Finding], top: usize) -> String {
    let total = found.report.time.total();
    let mut table =
        Table::new(&["where", "for", "share", "time", "stalls", "longest", "thread", "ended by"]);
    for one in rows.iter().take(top) {
        let is_unknown = one.place == "?" && one.enders.is_empty();
        let or = |unknown: &str, known: String| if is_unknown { unknown.into() } else { known };
        table.row(vec![
            or("not seen by looks, or too short", cut(&one.path(), PLACE)),
            cut(&one.what, WHAT),
            percent(share(one.row.waited_ns, total)),
            units::time(one.row.waited_ns as f64),
            or("-", units::count(one.row.waits as f64)),
            or("-", units::time(one.row.longest_ns as f64)),
            or("-", cut(&one.longest_thread, WHAT)),
            one.ender().map_or("-".into(), |(who, _)| cut(who, PLACE)),
        ]);
    }
    let rest: u64 = rows.iter().skip(top).map(|one| one.row.waited_ns).sum();
    if rest > 0 {
        let mut cells = vec!["-".to_owned(); 8];
        cells[0] = format!("{} more places", rows.len() - top);
        cells[2] = percent(share(rest, total));
        cells[3] = units::time(rest as f64);
        table.row(cells);
    }
    table.to_string().trim_end().to_owned()
}

fn locks_table(locks: &[&Finding]) -> String {
    let mut heads = vec!["where", "lock", "p50", "p99.9"];
    heads.extend(State::HOLDERS.map(State::head));
    let mut table = Table::new(&heads);
    for one in locks {
        let mut cells = vec![cut(&one.path(), PLACE), cut(&lock_name(one), WHAT)];
        // Looks see no single wait from its beginning to its end. None is longer than the longest.
        let waits = &one.row.wait_ns;
        cells.extend([0.5, 0.999].map(|part| match waits.count() {
            0 => "-".into(),
            _ => units::time(waits.quantile(part).min(one.row.longest_ns) as f64),
        }));
        cells.extend(parts(&one.row.holder));
        table.row(cells);
    }
    table.to_string().trim_end().to_owned()
}

fn parts(holder: &Times) -> impl Iterator<Item = String> {
    State::HOLDERS.into_iter().map(|state| match holder.of(state) {
        0 => "-".into(),
        ns => percent(share(ns, holder.total())),
    })
}

fn loops_table(found: &Findings, top: usize) -> String {
    let mut table = Table::new(&["where", "of CPU time", "while others lacked a CPU"]);
    for one in found.loops.iter().take(top) {
        table.row(vec![
            cut(&one.place, PLACE),
            percent(found.cpu_share(one.samples)),
            percent(share(one.while_others_starved, one.samples)),
        ]);
    }
    table.to_string().trim_end().to_owned()
}
