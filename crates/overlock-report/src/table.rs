// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers themselves. Each cell contains the record's own value, beside the three figures that
//! it shows.

use crate::group::Section;
use crate::record::Point;
use maud::{Markup, html};
use overlock_world::WaitNs;
use overlock_world::stats::Interval;
use overlock_world::stats::Spread;
use overlock_world::units::{count, three, time};

/// A number of the record, and its text on the page.
type Figure = (f64, String);

/// One column of a table of points; omitted if no record has it.
struct Column {
    name: &'static str,
    /// The meaning of the column.
    about: &'static str,
    figure: fn(&Point) -> Option<Figure>,
}

fn counted(value: f64) -> Figure {
    (value, count(value))
}

fn timed(ns: u64) -> Figure {
    (ns as f64, time(ns as f64))
}

fn ratio(of: Option<Interval>) -> Option<Figure> {
    of.map(|of| (of.median, three(of.median)))
}

fn ops(point: &Point, of: fn(Interval) -> f64) -> Option<Figure> {
    point.ops_per_s.map(of).map(counted)
}

fn wait(point: &Point, of: fn(&WaitNs) -> u64) -> Option<Figure> {
    point.wait_ns.as_ref().map(of).map(timed)
}

fn share(point: &Point, of: fn(&Spread) -> f64) -> Option<Figure> {
    point.ops_per_cpu.as_ref().map(of).map(counted)
}

/// Returns the program's own figure, or its wall time.
fn value(point: &Point, of: fn(Interval) -> f64) -> Option<Figure> {
    let value = of(point.value?);
    let shown = if point.metric.is_some() { count(value) } else { time(value * 1e9) };
    Some((value, shown))
}

/// The columns for points, in order.
const COLUMNS: &[Column] = &[
    Column {
        name: "figure",
        about: "the compared figure: the program's own, or wall time; median over rounds",
        figure: |p| value(p, |v| v.median),
    },
    Column {
        name: "low",
        about: "the lower end of the interval of the median",
        figure: |p| value(p, |v| v.low),
    },
    Column { name: "high", about: "its upper end", figure: |p| value(p, |v| v.high) },
    Column {
        name: "better",
        about: "how many times better than the baseline, by rounds; above 1 is better",
        figure: |p| ratio(p.of_baseline),
    },
    Column {
        name: "low",
        about: "the lower end of its interval",
        figure: |p| p.of_baseline.map(|r| (r.low, three(r.low))),
    },
    Column {
        name: "high",
        about: "its upper end",
        figure: |p| p.of_baseline.map(|r| (r.high, three(r.high))),
    },
    Column {
        name: "ops/s",
        about: "operations per second of all vCPUs together; median over rounds",
        figure: |p| ops(p, |v| v.median),
    },
    Column {
        name: "low",
        about: "the lower end of the interval of the median",
        figure: |p| ops(p, |v| v.low),
    },
    Column { name: "high", about: "its upper end", figure: |p| ops(p, |v| v.high) },
    Column {
        name: "of 1x",
        about: "throughput over that of the same with one vCPU for each pCPU, by rounds",
        figure: |p| ratio(p.of_1x),
    },
    Column {
        name: "of best",
        about: "throughput over that of the best peer, by rounds",
        figure: |p| ratio(p.of_best_peer),
    },
    Column {
        name: "of report",
        about: "throughput over that of the same where vCPUs report spins and none yields",
        figure: |p| ratio(p.of_report),
    },
    Column { name: "p50", about: "the median wait for the lock", figure: |p| wait(p, |w| w.p50) },
    Column {
        name: "p99",
        about: "99 % of the waits are no longer",
        figure: |p| wait(p, |w| w.p99),
    },
    Column {
        name: "p99.9",
        about: "99.9 % of the waits are no longer",
        figure: |p| wait(p, |w| w.p999),
    },
    Column {
        name: "longest",
        about: "the longest wait that ended, of all rounds",
        figure: |p| wait(p, |w| w.max),
    },
    Column {
        name: "stall",
        about: "the longest time spent waiting for the lock, even without ever getting it",
        figure: |p| p.longest_stall_ns.map(timed),
    },
    Column {
        name: "least",
        about: "operations in a run of the vCPU that did the least",
        figure: |p| share(p, |s| s.min as f64),
    },
    Column {
        name: "average",
        about: "operations of the average vCPU",
        figure: |p| share(p, |s| s.avg),
    },
    Column {
        name: "most",
        about: "operations of the vCPU that did the most",
        figure: |p| share(p, |s| s.max as f64),
    },
    Column {
        name: "Jain",
        about: "fairness: 1 if all vCPUs did the same",
        figure: |p| p.jain.map(|jain| (jain, three(jain))),
    },
    Column {
        name: "timer read",
        about: "the time of a read of the PM timer",
        figure: |p| p.timer_read_ns.map(|r| (r.median, time(r.median))),
    },
    Column {
        name: "CPU/s",
        about: "CPU seconds used in a second",
        figure: |p| p.cpu_s_per_s.map(|cpu| (cpu, three(cpu))),
    },
    Column {
        name: "rounds",
        about: "the number of runs",
        figure: |p| {
            (!p.samples.is_empty()).then(|| (p.samples.len() as f64, p.samples.len().to_string()))
        },
    },
];

/// Shows a number with the value of the record behind it.
pub(crate) fn number((raw, shown): &Figure) -> Markup {
    html! { data value=(raw) { (shown) } }
}

/// Makes a table that scrolls by itself where it is wider than the page.
pub(crate) fn scrolled(label: &str, table: &Markup) -> Markup {
    html! { div class="scroll" role="region" tabindex="0" aria-label=(label) { (table) } }
}

/// Makes a table of all points of a section, a row each.
pub(crate) fn points(section: &Section<'_>) -> Markup {
    let all = || section.cells().flat_map(|cell| &cell.points);
    let has = |column: &&Column| all().any(|(_, point)| (column.figure)(point).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let many = section.run_names().len() > 1;
    let first = all().next();
    let sharer = first.map_or("vCPU", |(_, point)| point.sharer());
    let has_cpus = all().any(|(_, point)| point.cpus.is_some());
    let table = html! {
        table class="points" {
            caption { "As recorded: medians over rounds" }
            thead { tr {
                th scope="col" { "lock" }
                @if has_cpus {
                    th scope="col" { (sharer) "s" }
                    th scope="col" title={ (sharer) "s for each processor that they share" } {
                        "over"
                    }
                }
                @if many { th scope="col" title="which run: see above" { "run" } }
                @for column in &columns { th scope="col" title=(column.about) { (column.name) } }
            } }
            tbody {
                @for cell in section.cells() { @for (run, point) in &cell.points {
                    tr {
                        th scope="row" { (cell.series) }
                        @if has_cpus {
                            td { @if let Some(cpus) = point.cpus { data value=(cpus) { (cpus) } } }
                            td { @if let Some(over) = point.over() {
                                (crate::group::three_short(over)) "x"
                            } }
                        }
                        @if many { td { (run.name) } }
                        @for column in &columns {
                            td { @match (column.figure)(point) {
                                Some(figure) => (number(&figure)),
                                None => span class="none" { "–" },
                            } }
                        }
                    }
                } }
            }
        }
    };
    scrolled(&format!("All numbers: {}", section.title), &table)
}

/// Returns the main figure of a section.
fn figure(section: &Section<'_>, point: &Point) -> Option<Interval> {
    if section.is_process { point.value } else { point.ops_per_s }
}

/// Shows runs beside each other, if there are several: how well do they agree?
pub(crate) fn side_by_side(section: &Section<'_>) -> Option<Markup> {
    let names = section.run_names();
    if names.len() < 2 {
        return None;
    }
    let show = |point: &Point, value: f64| match section.is_process && point.metric.is_none() {
        true => time(value * 1e9),
        false => count(value),
    };
    let mut rows: Vec<(String, String)> = Vec::new();
    for cell in section.cells() {
        let row = (cell.series.clone(), cell.place());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let cells = |row: &(String, String), run: &str| {
        let cells = section.cells().filter(|c| c.series == row.0 && c.place() == row.1);
        let mut points = cells.flat_map(|cell| cell.points.clone()).filter(|(r, _)| r.name == run);
        points.find_map(|(_, point)| Some((point, figure(section, point)?)))
    };
    let what = if section.is_process { "figure" } else { "ops/s" };
    let table = html! {
        table class="runs" {
            caption { "Run by run: median of " (what) ", and its interval" }
            thead { tr {
                th scope="col" { "lock" } th scope="col" {}
                @for name in &names { th scope="col" { "run " (name) } }
                th scope="col" title="the highest median over the lowest" { "apart" }
            } }
            tbody { @for row in &rows {
                @let all: Vec<_> = names.iter().map(|name| cells(row, name)).collect();
                tr {
                    th scope="row" { (row.0) }
                    td { (row.1) }
                    @for cell in &all { td { @match cell {
                        Some((point, of)) => {
                            (number(&(of.median, show(point, of.median))))
                            span class="interval" {
                                (number(&(of.low, show(point, of.low)))) " to "
                                (number(&(of.high, show(point, of.high))))
                            }
                        },
                        None => span class="none" { "–" },
                    } } }
                    td { (apart(all.iter().flatten().map(|(_, of)| of.median))) }
                }
            } }
        }
    };
    Some(scrolled(&format!("Run by run: {}", section.title), &table))
}

/// Returns the highest over the lowest; nothing for a single value.
fn apart(medians: impl Iterator<Item = f64>) -> String {
    let all: Vec<f64> = medians.collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    if all.len() < 2 || low <= 0.0 { "–".into() } else { format!("{}x", three(high / low)) }
}
