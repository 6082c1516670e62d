// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of an experiment: all its points, and its runs beside each other.

use crate::group::{Section, three_short};
use crate::read::Run;
use crate::record::Point;
use crate::table::{self, Figure, Group, Table, none, number};
use maud::{Markup, html};
use overlock_world::WaitNs;
use overlock_world::stats::{Interval, unique};
use overlock_world::units::{count, three, time};

/// One column of a table of points; left out if no record has it.
struct Column {
    name: &'static str,
    /// The meaning of the column.
    about: &'static str,
    cell: fn(&Point) -> Option<Cell>,
}

/// What a column shows of one point.
enum Cell {
    One(Figure),
    /// A figure, and two ends.
    Range(Figure, [Figure; 2]),
}

fn timed(ns: u64) -> Cell {
    Cell::One((ns as f64, time(ns as f64)))
}

fn spread(of: Interval, show: fn(f64) -> String) -> Cell {
    let [median, low, high] = [of.median, of.low, of.high].map(|value| (value, show(value)));
    Cell::Range(median, [low, high])
}

fn wait(point: &Point, of: fn(&WaitNs) -> u64) -> Option<Cell> {
    point.wait_ns.as_ref().map(of).map(timed)
}

/// Returns how to show the compared figure of a program: its own, or wall time.
fn shown(point: &Point) -> fn(f64) -> String {
    if point.metric.is_some() { count } else { |seconds| time(1e9 * seconds) }
}

/// The columns for points, in order. Ranges are those of the median.
const COLUMNS: &[Column] = &[
    Column {
        name: "figure",
        about: "the compared figure: the program's own, or wall time; median over rounds",
        cell: |p| p.value.map(|value| spread(value, shown(p))),
    },
    Column {
        name: "better",
        about: "how many times better than the baseline, by rounds; above 1 is better",
        cell: |p| p.of_baseline.map(|of| spread(of, three)),
    },
    Column {
        name: "ops/s",
        about: "operations per second of all together; median over rounds",
        cell: |p| p.ops_per_s.map(|of| spread(of, count)),
    },
    Column {
        name: "of 1x",
        about: "throughput over that of the same with one vCPU for each pCPU, by rounds",
        cell: |p| p.of_1x.map(|of| spread(of, three)),
    },
    Column {
        name: "of best",
        about: "throughput over that of the best peer, by rounds",
        cell: |p| p.of_best_peer.map(|of| spread(of, three)),
    },
    Column {
        name: "of report",
        about: "throughput over that of the same where vCPUs report spins and none yields",
        cell: |p| p.of_report.map(|of| spread(of, three)),
    },
    Column { name: "p50", about: "the median wait for the lock", cell: |p| wait(p, |w| w.p50) },
    Column { name: "p99", about: "99 % of the waits are no longer", cell: |p| wait(p, |w| w.p99) },
    Column {
        name: "p99.9",
        about: "99.9 % of the waits are no longer",
        cell: |p| wait(p, |w| w.p999),
    },
    Column {
        name: "longest",
        about: "the longest wait that ended, of all rounds",
        cell: |p| wait(p, |w| w.max),
    },
    Column {
        name: "stall",
        about: "the longest time spent waiting for the lock, even without ever getting it",
        cell: |p| p.longest_stall_ns.map(timed),
    },
    Column {
        name: "ops each",
        about: "operations of each in a run: the average, and the least and the most of any",
        cell: |p| {
            let of = p.ops_per_cpu.as_ref()?;
            let [least, average, most] =
                [of.min as f64, of.avg, of.max as f64].map(|of| (of, count(of)));
            Some(Cell::Range(average, [least, most]))
        },
    },
    Column {
        name: "Jain",
        about: "fairness: 1 if all did the same",
        cell: |p| p.jain.map(|jain| Cell::One((jain, three(jain)))),
    },
    Column {
        name: "timer read",
        about: "the time of a read of the PM timer",
        cell: |p| p.timer_read_ns.map(|of| spread(of, time)),
    },
    Column {
        name: "CPU/s",
        about: "CPU seconds used in a second",
        cell: |p| p.cpu_s_per_s.map(|cpu| Cell::One((cpu, three(cpu)))),
    },
    Column {
        name: "rounds",
        about: "the number of runs",
        cell: |p| {
            let rounds = p.samples.len();
            (rounds > 0).then(|| Cell::One((rounds as f64, rounds.to_string())))
        },
    },
];

impl Column {
    /// Shows a point's figure. Without rounds there is no range.
    fn show(&self, point: &Point) -> Markup {
        match (self.cell)(point) {
            None => none(),
            Some(Cell::One(figure)) => number(&figure),
            Some(Cell::Range(figure, [low, high])) => html! {
                (number(&figure))
                @if (low.0, high.0) != (figure.0, figure.0) {
                    (table::range(&low, &high))
                }
            },
        }
    }
}

fn column(name: impl Into<String>, about: &str) -> table::Column {
    table::Column { name: name.into(), about: about.into(), is_text: false }
}

/// Shows how many vCPUs or threads there were, and the overcommit.
fn place(point: &Point) -> Markup {
    html! { @match point.cpus {
        None => (none()),
        Some(cpus) => {
            (number(&(cpus.into(), cpus.to_string())))
            @if let Some(over) = point.over() {
                span class="interval" { (three_short(over)) "x" }
            }
        },
    } }
}

/// Makes a table of all points of a section, a row each.
pub(crate) fn points(section: &Section<'_>) -> Markup {
    let all: Vec<(&str, &Run, &Point)> = section
        .cells()
        .flat_map(|cell| cell.points.iter().map(|(run, point)| (&*cell.series, *run, *point)))
        .collect();
    // What is the same everywhere is said above the charts.
    let has = |column: &&Column| match column.name {
        "rounds" => unique(all.iter().map(|(.., point)| point.samples.len())).len() > 1,
        _ => all.iter().any(|(.., point)| (column.cell)(point).is_some()),
    };
    let shown: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let many = section.run_names().len() > 1;
    let (sharer, shared) =
        all.first().map_or(("vCPU", "pCPU"), |(.., point)| (point.sharer(), point.shared()));
    let has_cpus = all.iter().any(|(.., point)| point.cpus.is_some());
    let mut columns = vec![table::Column { is_text: true, ..column("lock", "") }];
    if has_cpus {
        let about = format!("how many, and how many for each {shared} that they share");
        columns.push(column(format!("{sharer}s"), &about));
    }
    if many {
        columns.push(column("run", "which run: see above"));
    }
    columns.extend(shown.iter().map(|of| column(of.name, of.about)));
    let row = |(series, run, point): &(&str, &Run, &Point)| {
        let mut row = vec![html! { (series) }];
        if has_cpus {
            row.push(place(point));
        }
        if many {
            row.push(html! { (run.name) });
        }
        row.extend(shown.iter().map(|column| column.show(point)));
        row
    };
    let group = Group { name: String::new(), rows: all.iter().map(row).collect() };
    let caption = "As recorded: medians over rounds, and their ranges".into();
    Table { class: "points", caption, columns, groups: vec![group] }.show()
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
    let show = |point: &Point| if section.is_process { shown(point) } else { count };
    let mut rows: Vec<(String, String)> = Vec::new();
    for cell in section.cells() {
        let row = (cell.series.clone(), cell.place());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let of_run = |(series, place): &(String, String), run: &str| {
        let cells = section.cells().filter(|c| c.series == *series && c.place() == *place);
        let mut points = cells.flat_map(|cell| cell.points.clone()).filter(|(r, _)| r.name == run);
        points.find_map(|(_, point)| Some((point, figure(section, point)?)))
    };
    let row = |row: &(String, String)| {
        let all: Vec<_> = names.iter().map(|name| of_run(row, name)).collect();
        let cell = |cell: &Option<(&Point, Interval)>| {
            cell.map_or_else(none, |(point, of)| table::interval(of, show(point)))
        };
        let medians = all.iter().flatten().map(|(_, of)| of.median);
        let named = [html! { (row.0) }, html! { (row.1) }];
        let apart = html! { (apart(medians)) };
        named.into_iter().chain(all.iter().map(cell)).chain([apart]).collect()
    };
    let mut columns = vec![table::Column { is_text: true, ..column("lock", "") }, column("at", "")];
    columns.extend(names.iter().map(|name| column(format!("run {name}"), "")));
    columns.push(column("apart", "the highest median over the lowest"));
    let what = if section.is_process { "figure" } else { "ops/s" };
    let caption = format!("Run by run: median of {what}, and its interval");
    let group = Group { name: String::new(), rows: rows.iter().map(row).collect() };
    Some(Table { class: "runs", caption, columns, groups: vec![group] }.show())
}

/// Returns the highest over the lowest; nothing for a single value.
fn apart(medians: impl Iterator<Item = f64>) -> String {
    let all: Vec<f64> = medians.collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    if all.len() < 2 || low <= 0.0 { "–".into() } else { format!("{}x", three(high / low)) }
}
