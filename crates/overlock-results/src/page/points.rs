//! The tables of an experiment: all its points, and its runs beside each other.

use crate::columns::{Column, LOCK_TIME, PAGE, THREAD_TIME, View};
use crate::page::group::{Cell, Section, three_short};
use crate::page::read::Recording;
use crate::page::table::{self, Figure, Group, Table, none, number};
use crate::row::Point;
use crate::stats::{Interval, unique};
use crate::units::{count, three, time};
use maud::{Markup, html};

fn known(name: &str) -> &'static Column {
    Column::named(name).expect("a test asks for each")
}

fn figure_of(column: &Column, point: &Point) -> Option<Figure> {
    let value = (column.get)(point).filter(|value| value.is_finite())?;
    Some((value, column.unit.show(value)))
}

/// Explains a column, and the range below its figures.
fn about(column: &Column) -> String {
    match column.ends().map(|ends| ends.map(|end| end.about)) {
        Some([low, high]) => format!("{}; below: {low}, and {high}", column.about),
        None => column.about.to_owned(),
    }
}

/// Shows a point's figure, and its range if it has any.
fn cell(column: &Column, point: &Point) -> Option<Markup> {
    let figure = figure_of(column, point)?;
    let ends = column.ends().map(|ends| ends.map(|end| figure_of(end, point)));
    Some(match ends {
        Some([Some(low), Some(high)]) => with_range(&figure, &low, &high),
        _ => number(&figure),
    })
}

fn with_range(figure: &Figure, low: &Figure, high: &Figure) -> Markup {
    html! {
        (number(figure))
        @if [&low.1, &high.1] != [&figure.1; 2] { (table::range(low, high)) }
    }
}

fn shown(point: &Point) -> fn(f64) -> String {
    if point.metric.is_some() { count } else { |seconds| time(1e9 * seconds) }
}

fn compared(point: &Point) -> Option<Markup> {
    let [median, low, high] = point.value.map(|of| [of.median, of.low, of.high])?;
    let [median, low, high] = [median, low, high].map(|value| (value, shown(point)(value)));
    Some(with_range(&median, &low, &high))
}

type Fill<'a> = Box<dyn Fn(&Point) -> Option<Markup> + 'a>;

fn filled<'a>(all: &[(&str, &Recording, &Point)]) -> Vec<(table::Column, Fill<'a>)> {
    let figure = (column("figure", known("figure").about), Box::new(compared) as Fill<'a>);
    let columns = PAGE.iter().map(|name| {
        let of = known(name);
        let fill: Fill<'a> = Box::new(move |point| cell(of, point));
        (column(of.name, &about(of)), fill)
    });
    let mut columns: Vec<_> = [figure].into_iter().chain(columns).collect();
    columns.retain(|(_, fill)| all.iter().any(|(.., point)| fill(point).is_some()));
    // Where all have as many, the header of the run says it.
    let rounds = unique(all.iter().map(|(.., point)| point.samples.len()));
    if rounds.len() > 1 {
        let fill: Fill<'a> = Box::new(|point| {
            let rounds = point.samples.len();
            (rounds > 0).then(|| number(&(rounds as f64, rounds.to_string())))
        });
        columns.push((column("rounds", "the number of runs"), fill));
    }
    columns
}

fn column(name: impl Into<String>, about: &str) -> table::Column {
    table::Column { name: name.into(), about: about.into(), is_text: false }
}

fn place(point: &Point) -> Markup {
    html! { @match point.cpus {
        None => (none()),
        Some(cpus) => {
            (number(&(cpus.into(), cpus.to_string())))
            @if let Some(over) = point.overcommit() {
                span class="interval" { (three_short(over)) "x" }
            }
        },
    } }
}

pub(crate) fn points(section: &Section<'_>) -> Markup {
    let all = rows(section);
    let shown = filled(&all);
    let many = section.run_names().len() > 1;
    let mut columns = vec![table::Column { is_text: true, ..column("lock", "") }];
    let has_cpus = all.iter().any(|(.., point)| point.cpus.is_some());
    columns.extend(all.first().filter(|_| has_cpus).map(|(.., point)| takers(point)));
    if many {
        columns.push(column("run", "which run: see above"));
    }
    columns.extend(shown.iter().map(|(column, _)| column.clone()));
    let row = |(series, run, point): &(&str, &Recording, &Point)| {
        let mut row = vec![html! { (series) }];
        if has_cpus {
            row.push(place(point));
        }
        if many {
            row.push(html! { (run.name) });
        }
        row.extend(shown.iter().map(|(_, fill)| fill(point).unwrap_or_else(none)));
        row
    };
    let group = Group { name: String::new(), rows: all.iter().map(row).collect() };
    let caption = "As recorded: medians over rounds, and their ranges".into();
    Table { class: "points", caption, columns, groups: vec![group] }.show()
}

fn rows<'a>(section: &'a Section<'a>) -> Vec<(&'a str, &'a Recording, &'a Point)> {
    let of_cell =
        |cell: &'a Cell<'a>| cell.points.iter().map(|(run, point)| (&*cell.series, *run, *point));
    section.cells().flat_map(of_cell).collect()
}

fn takers(point: &Point) -> table::Column {
    let (taker, shared) = point.takers().names();
    let about = format!("how many, and how many for each {shared} that they share");
    column(format!("{taker}s"), &about)
}

/// Makes tables of where the time of each lock and of its threads went, for points that know it.
pub(crate) fn times(section: &Section<'_>) -> Markup {
    html! {
        (view(section, "Where the time of each lock went", LOCK_TIME))
        (view(section, "What its threads did meanwhile", THREAD_TIME))
    }
}

fn view(section: &Section<'_>, caption: &str, view: &View) -> Markup {
    let mut all = rows(section);
    let mut shown: Vec<&Column> = view.iter().copied().map(known).collect();
    let has = |column: &Column, point: &Point| (column.get)(point).is_some();
    all.retain(|(.., point)| point.spent.is_some() && shown.iter().any(|of| has(of, point)));
    shown.retain(|column| all.iter().any(|(.., point)| has(column, point)));
    let Some((.., first)) = all.first() else { return html! {} };
    let mut columns = vec![table::Column { is_text: true, ..column("lock", "") }, takers(first)];
    columns.extend(shown.iter().map(|of| column(of.name, of.about)));
    let row = |(series, _, point): &(&str, &Recording, &Point)| {
        let figures = shown.iter().map(|of| figure_of(of, point));
        let figures = figures.map(|figure| figure.map_or_else(none, |of| number(&of)));
        [html! { (series) }, place(point)].into_iter().chain(figures).collect()
    };
    let group = Group { name: String::new(), rows: all.iter().map(row).collect() };
    Table { class: "time", caption: caption.into(), columns, groups: vec![group] }.show()
}

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
    use crate::page::sample::{crowd, only, point, program, read};

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
                "lock", "vCPUs", "ops/s", "p50", "p99", "p99.9", "longest", "stall", "average",
                "Jain", "CPU/s"
            ]
        );
        assert_eq!(rows[1][..4], ["hybrid", "2 1x", "1.00 M 900 k to 1.10 M", "100 ns"]);
        assert_eq!(
            rows[1][4..],
            ["2.00 us", "30.0 us", "400 us", "500 us", "100 50.0 to 150", "0.50", "1.75"]
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
        assert_eq!(rows[0], ["lock", "figure", "of baseline", "stall"]);
        assert_eq!(rows[2], ["hybrid", "1.00 s 950 ms to 1.05 s", "2.00 1.90 to 2.10", "1.50 ms"]);
    }

    #[test]
    fn times_are_a_table_of_points_that_know_them() {
        let spent = r#""spent":{"held":0.25,"turn":3.0},"sched":{"cpu":1.5},"jain""#;
        let explained = point("hybrid", 4, 1e6).replace(r#""jain""#, spent);
        let results = read(&[explained, point("ticket", 4, 1e6)]);
        let rows = cells(&times(&only(&results)));
        assert_eq!((rows.len(), rows[0][..4].join(" ")), (4, "lock vCPUs held stopped".into()));
        assert_eq!(rows[1][..3], ["hybrid", "4 2x", "25.0 %"]);
        assert_eq!(rows[2][..3], ["lock", "vCPUs", "kernel"]);
        assert_eq!(times(&only(&crowd())).0, "");
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
