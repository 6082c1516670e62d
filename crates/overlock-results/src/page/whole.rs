//! The page: the runs, then each experiment with its charts and its table.

use crate::page::figure::{CHART_STYLE, Chart, both, legend, own, small};
use crate::page::group::{Cell, Section, Setup};
use crate::page::lines;
use crate::page::others;
use crate::page::palette::Palette;
use crate::page::points;
use crate::page::ratios::{Intervals, fairness};
use crate::page::read::{Recording, Results};
use crate::page::timeline::{self, Lanes};
use crate::page::words;
use crate::row::{NONE, beside};
use crate::stats::unique;
use crate::units::{count, three, time};
use maud::{DOCTYPE, Markup, html};

const STYLE: &str = include_str!("page.css");

/// Zooms into timelines. Everything else works without it.
const SCRIPT: &str = include_str!("page.js");

/// The browser's permissions for the page: only to show it, with what it contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

pub(crate) fn page(results: &Results, sections: &[Section<'_>], title: Option<&str>) -> Markup {
    let palette = Palette::of(sections);
    let title = title.unwrap_or("Overlock: what was measured");
    let runs = &results.runs;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "overlock " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (own(CHART_STYLE)) (own(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (missing(results))
                    @for run in runs { (about(run, runs.len() > 1)) }
                    (contents(sections, runs))
                }
                main {
                    // Readers look first for what is true of a whole run.
                    @for run in runs.iter().filter(|run| is_summed_up(run)) {
                        (rest(run, runs.len() > 1, &palette))
                    }
                    @for (number, part) in sections.iter().enumerate() {
                        (section(number, part, &palette))
                    }
                    (timelines(runs))
                    @for run in runs.iter().filter(|run| !is_summed_up(run)) {
                        (rest(run, runs.len() > 1, &palette))
                    }
                }
                footer {
                    p {
                        "Charts and tables show what the records hold: medians over rounds, and the \
                         interval of each median. "
                        code { "overlock reference" } " says what every name means."
                    }
                }
                script { (own(SCRIPT)) }
            }
        }
    }
}

/// Whether rows of the run are about all of it: there are no points, or summaries of them.
fn is_summed_up(run: &Recording) -> bool {
    !run.summaries.is_empty() || run.points.is_empty()
}

/// Shows what could not be read, so that readers do not take the page for complete.
fn missing(results: &Results) -> Markup {
    html! {
        @if !results.complaints.is_empty() {
            div class="missing" role="note" {
                p { strong { "Some input could not be read." } " What is missing:" }
                ul { @for complaint in &results.complaints { li { (complaint) } } }
            }
        }
    }
}

fn about(run: &Recording, many: bool) -> Markup {
    html! {
        section class="run" {
            @if many { h2 { "Run " (run.name) } }
            @if let Some(command) = run.head.as_ref().and_then(words::command) {
                pre class="command" { code { (command) } }
            }
            p { (words::setting(run)) " " (words::extent(run)) " "
                @if let Some(coverage) = words::coverage(run) { (coverage) }
                span class="file" { " From " (run.file) "." }
            }
            @for doubt in words::doubts(run) { p class="doubt" { (doubt) } }
            (others::sentences(run))
        }
    }
}

fn contents(sections: &[Section<'_>], runs: &[Recording]) -> Markup {
    let has_timelines = runs.iter().any(|run| !run.timelines.is_empty());
    html! {
        @if sections.len() > 1 {
            nav aria-label="Contents" { details open[sections.len() <= 8] {
                summary { (sections.len()) " experiments" }
                ul {
                    @for (number, section) in sections.iter().enumerate() {
                        li { a href={ "#s" (number) } { (section.title) } }
                    }
                    @if has_timelines { li { a href="#timelines" { "Timelines" } } }
                }
            } }
        }
    }
}

fn section(number: usize, section: &Section<'_>, palette: &Palette) -> Markup {
    html! {
        section class="experiment" id={ "s" (number) } {
            h2 { (section.title) }
            @for setup in &section.setups {
                @if section.setups.len() > 1 { h3 { (setup.label()) } }
                (pooled(setup))
                (charts(section, setup, palette))
            }
            @if let Some(table) = points::side_by_side(section) { (table) }
            (points::points(section))
            (points::times(section))
        }
    }
}

fn pooled(setup: &Setup<'_>) -> Markup {
    html! {
        @if setup.runs.len() > 1 {
            p class="note" {
                "Charts pool " (setup.runs.len()) " runs of one machine and one commit: the median \
                 of their medians, from the lowest low to the highest high."
            }
        }
    }
}

fn charts(section: &Section<'_>, setup: &Setup<'_>, palette: &Palette) -> Markup {
    if section.is_process {
        return process(setup, palette);
    }
    let title = "Throughput against overcommit".to_owned();
    let overcommit = lines::overcommit(section, setup, palette, title);
    let cpus = setup.cpus();
    let each = |chart: &dyn Fn(u32) -> Option<Markup>| -> Vec<Markup> {
        cpus.iter().filter_map(|cpus| chart(*cpus)).collect()
    };
    let waits = each(&|cpus| Some(small(&lines::waits(section, setup, cpus, palette)?)));
    let shares = each(&|cpus| Some(small(&fairness(setup, cpus, palette)?)));
    // Four charts in two rows of two, not three and one.
    let row = if matches!(cpus.len(), 1 | 2 | 4) { "two" } else { "three" };
    let rows = if cpus.len() == 1 { vec![[waits, shares].concat()] } else { vec![waits, shares] };
    html! {
        @match &overcommit {
            Some(chart) => (both(chart)),
            None => (at_one_point(setup, palette)),
        }
        (legend(setup.series().into_iter(), palette))
        @for charts in rows { div class={ "row " (row) } { @for chart in charts { (chart) } } }
    }
}

/// Draws the throughput if there is no second overcommit to draw a line to.
fn at_one_point(setup: &Setup<'_>, palette: &Palette) -> Markup {
    let title = match setup.cells.first().map(Cell::place).filter(|place| !place.is_empty()) {
        Some(place) => format!("Throughput, {place}"),
        None => "Throughput".into(),
    };
    let unit = "operations in a second".to_owned();
    let rows = setup.intervals(|point| point.ops_per_s);
    let chart = Intervals { title, unit, ratios: false, rows, show: count, palette };
    html! { @if chart.rows.iter().any(|(_, of, _)| of.high > 0.0) {
        (both(&chart))
    } }
}

fn process(setup: &Setup<'_>, palette: &Palette) -> Markup {
    let first = setup.cells.iter().find_map(|cell| cell.points.first()).map(|(_, point)| *point);
    let baseline = first.and_then(|point| point.baseline.as_deref()).unwrap_or("the baseline");
    let metric = first.and_then(|point| point.metric.as_deref());
    let ratios = Intervals {
        title: format!("How many times better than {baseline}"),
        unit: format!("over {baseline}, by rounds; above 1 is better"),
        ratios: true,
        rows: setup.intervals(|point| point.of_baseline),
        show: three,
        palette,
    };
    let figures = Intervals {
        title: metric.map_or("Wall time".into(), |metric| format!("The figure {metric}")),
        unit: if metric.is_some() { "as the program prints it".into() } else { "of a run".into() },
        ratios: false,
        rows: setup.intervals(|point| point.value),
        show: if metric.is_some() { count } else { |seconds| time(1e9 * seconds) },
        palette,
    };
    html! {
        @if setup.cells.iter().any(|cell| cell.series == NONE) {
            p class="note" {
                code { (NONE) } " is libc under the preload library, which then replaces nothing: \
                 the difference to libc is the price of preloading."
            }
        }
        @for chart in [ratios, figures] { @if !chart.rows.is_empty() { (both(&chart)) } }
    }
}

fn timelines(runs: &[Recording]) -> Markup {
    let all = || runs.iter().flat_map(|run| run.timelines.iter().map(move |of| (run, of)));
    let are_threads = all().all(|(_, of)| timeline::is_of_threads(of));
    html! {
        @if all().next().is_some() {
            section class="experiment" id="timelines" {
                h2 { "Timelines" }
                p class="note" {
                    @if !are_threads { "Each comes from a run that is used for nothing else. " }
                    span class="scripted" {
                        "Drag to move, press + and − or use Ctrl and the wheel to zoom, 0 for all."
                    }
                }
                (timeline::legend(are_threads))
                @for (number, (run, timeline)) in all().enumerate() {
                    @let lanes = Lanes::of(timeline);
                    @let caption = lanes.caption();
                    figure class="timeline" {
                        figcaption {
                            @if runs.len() > 1 { "Run " (run.name) ", " }
                            (caption.title)
                        }
                        p class="note" { (caption.description) }
                        div class="scroll" { (lanes.zoomable(&format!("t{number}"))) }
                        details { summary { "The same as a table" } (lanes.table()) }
                    }
                }
            }
        }
    }
}

fn rest(run: &Recording, many: bool, palette: &Palette) -> Markup {
    let chart = |setting| {
        let all = run.summaries.iter().filter(move |line| line.beside == setting);
        Intervals {
            title: format!("Throughput over that of each point’s best peer{}", beside(setting)),
            unit: "geometric mean over all points, by rounds".into(),
            ratios: true,
            rows: all
                .filter_map(|line| Some((line.lock.as_str(), line.of_best_peer?, None)))
                .collect(),
            show: three,
            palette,
        }
    };
    let settings = unique(run.summaries.iter().map(|line| line.beside));
    let charts = settings.into_iter().map(chart).filter(|chart| !chart.rows.is_empty());
    let charts: Vec<Intervals<'_>> = charts.collect();
    let tables = others::tables(run);
    html! {
        @if !tables.0.is_empty() || !charts.is_empty() {
            section class="experiment" {
                h2 { @if many { "Run " (run.name) " as a whole" } @else { "Overall" } }
                @for chart in &charts { (both(chart)) }
                (tables)
            }
        }
    }
}
