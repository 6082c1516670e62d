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
                @if [&low.1, &high.1] != [&figure.1; 2] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{crowd, only, point, program, read};

    /// Returns the text of each cell, row by row.
    fn cells(table: &Markup) -> Vec<Vec<String>> {
        let page = scraper::Html::parse_fragment(&table.0);
        let [tr, cell] = ["tr", "th, td"].map(|css| scraper::Selector::parse(css).unwrap());
        let text = |cell: scraper::ElementRef<'_>| cell.text().collect::<Vec<_>>().join(" ");
        let rows = page
            .select(&tr)
            .map(|row| row.select(&cell).map(text).map(|text| text.replace("  ", " ")).collect());
        rows.collect()
    }

    #[test]
    fn a_row_has_medians_and_their_ranges() {
        let results = read(&[point("hybrid", 2, 1e6)]);
        let rows = cells(&points(&only(&results)));
        assert_eq!(
            rows[0],
            [
                "lock", "vCPUs", "ops/s", "p50", "p99", "p99.9", "longest", "stall", "ops each",
                "Jain", "CPU/s"
            ]
        );
        assert_eq!(rows[1][..4], ["hybrid", "2 1x", "1.00 M 900 k to 1.10 M", "100 ns"]);
        assert_eq!(
            rows[1][4..],
            ["2.00 us", "30.0 us", "400 us", "500 us", "100 50.0 to 150", "0.500", "1.75"]
        );
    }

    #[test]
    fn rounds_are_a_column_if_they_differ() {
        let other = point("ticket", 2, 1e6).replace("[{},{},{}]", "[{}]");
        let rows = cells(&points(&only(&read(&[point("hybrid", 2, 1e6), other]))));
        let last: Vec<&str> = rows.iter().map(|row| row.last().unwrap().as_str()).collect();
        assert_eq!(last, ["rounds", "3", "1"]);
    }

    #[test]
    fn a_program_has_its_wall_time() {
        let results = read(&[program("libc", 2.0, 1.0), program("hybrid", 1.0, 2.0)]);
        let rows = cells(&points(&only(&results)));
        assert_eq!(rows[0], ["lock", "figure", "better", "stall"]);
        assert_eq!(rows[2], ["hybrid", "1.00 s 950 ms to 1.05 s", "2.00 1.90 to 2.10", "1.50 ms"]);
    }

    #[test]
    fn runs_stand_beside_each_other() {
        let run = |ops| [r#"{"kind":"run"}"#.to_owned(), point("hybrid", 2, ops)];
        let results = read([run(1e6), run(2e6)].as_flattened());
        let rows = cells(&side_by_side(&only(&results)).unwrap());
        assert_eq!(rows[0], ["lock", "at", "run A", "run B", "apart"]);
        let cells = ["1.00 M 900 k to 1.10 M", "2.00 M 1.80 M to 2.20 M", "2.00x"];
        assert_eq!(rows[1], ["hybrid", "2 vCPUs (1x)", cells[0], cells[1], cells[2]]);
        assert!(side_by_side(&only(&crowd())).is_none());
    }
}
