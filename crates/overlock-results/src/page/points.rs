//! The tables of an experiment: all its points, and its runs beside each other.

use crate::columns::{self, Column, LOCK_TIME, PAGE, THREAD_TIME, View};
use crate::page::group::{Cell, Section, three_short};
use crate::page::read::Recording;
use crate::page::table::{self, Figure, Group, Table, none, number};
use crate::row::Point;
use crate::stats::{Interval, unique};
use crate::units::{count, three, time};
use maud::{Markup, html};

/// A point, with what it is called, and its run.
type Row<'a> = (&'a str, &'a Recording, &'a Point);

type Filled<'a> = (table::Column, Box<dyn Fn(&Row<'_>) -> Option<Markup> + 'a>);

fn filled<'a>(
    name: &str,
    about: &str,
    fill: impl Fn(&Row<'_>) -> Option<Markup> + 'a,
) -> Filled<'a> {
    let is_text = name == "lock";
    (table::Column { name: name.into(), about: about.into(), is_text }, Box::new(fill))
}

fn rows<'a>(section: &'a Section<'a>) -> Vec<Row<'a>> {
    let of_cell =
        |cell: &'a Cell<'a>| cell.points.iter().map(|(run, point)| (&*cell.series, *run, *point));
    section.cells().flat_map(of_cell).collect()
}

/// Makes a table; columns that no row fills are left out.
fn table(class: &'static str, caption: &str, rows: &[Row<'_>], more: Vec<Filled<'_>>) -> Markup {
    let Some((.., first)) = rows.first() else { return html! {} };
    let (taker, shared) = first.takers().names();
    let about = format!("how many, and how many for each {shared} that they share");
    let mut all = vec![
        filled("lock", "", |(series, ..)| Some(html! { (series) })),
        filled(&format!("{taker}s"), &about, |(.., point)| place(point)),
    ];
    all.extend(more);
    all.retain(|(_, fill)| rows.iter().any(|row| fill(row).is_some()));
    let row = |row| all.iter().map(|(_, fill)| fill(row).unwrap_or_else(none)).collect();
    let groups = vec![Group { name: String::new(), rows: rows.iter().map(row).collect() }];
    let columns = all.iter().map(|(column, _)| column.clone()).collect();
    Table { class, caption: caption.into(), columns, groups }.show()
}

fn place(point: &Point) -> Option<Markup> {
    let cpus = point.cpus?;
    Some(html! {
        (number(&(cpus.into(), cpus.to_string())))
        @if let Some(over) = point.overcommit() {
            span class="interval" { (three_short(over)) "x" }
        }
    })
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
    let of = point.value?;
    let [median, low, high] = [of.median, of.low, of.high].map(|of| (of, shown(point)(of)));
    Some(with_range(&median, &low, &high))
}

pub(crate) fn points(section: &Section<'_>) -> Markup {
    let all = rows(section);
    let mut more = Vec::new();
    if section.run_names().len() > 1 {
        let name = |(_, run, _): &Row<'_>| Some(html! { (run.name) });
        more.push(filled("run", "which run: see above", name));
    }
    let figure = columns::of("figure").map(|of| filled(of.name, of.about, |row| compared(row.2)));
    more.extend(figure);
    more.extend(
        columns::of(PAGE).map(|of| filled(of.name, &about(of), |(.., point)| cell(of, point))),
    );
    // Where all have as many, the header of the run says it.
    if unique(all.iter().map(|(.., point)| point.samples.len())).len() > 1 {
        more.push(filled("rounds", "the number of runs", |(.., point)| {
            let rounds = point.samples.len();
            (rounds > 0).then(|| number(&(rounds as f64, rounds.to_string())))
        }));
    }
    table("points", "As recorded: medians over rounds, and their ranges", &all, more)
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
    let has = |point: &Point| columns::of(view).any(|column| (column.get)(point).is_some());
    all.retain(|(.., point)| point.spent.is_some() && has(point));
    let fill = |of: &'static Column| {
        filled(of.name, of.about, |(.., point)| figure_of(of, point).map(|of| number(&of)))
    };
    table("time", caption, &all, columns::of(view).map(fill).collect())
}

/// Shows runs beside each other, if there are several: how well do they agree?
pub(crate) fn side_by_side(section: &Section<'_>) -> Option<Markup> {
    let names = section.run_names();
    if names.len() < 2 {
        return None;
    }
    let figure = |point: &Point| if section.is_process { point.value } else { point.ops_per_s };
    let show = |point: &Point| if section.is_process { shown(point) } else { count };
    let rows = unique(section.cells().map(|cell| (cell.series.clone(), cell.place())));
    let of_run = |(series, place): &(String, String), run: &str| {
        let cells = section.cells().filter(|c| c.series == *series && c.place() == *place);
        let mut points = cells.flat_map(|cell| cell.points.clone()).filter(|(r, _)| r.name == run);
        points.find_map(|(_, point)| Some((point, figure(point)?)))
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
    let column = |name: String, about: &str| filled(&name, about, |_| None).0;
    let mut columns = vec![column("lock".into(), ""), column("at".into(), "")];
    columns.extend(names.iter().map(|name| column(format!("run {name}"), "")));
    columns.push(column("apart".into(), "the highest median over the lowest"));
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
