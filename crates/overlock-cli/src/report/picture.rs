// SPDX-License-Identifier: MIT OR Apache-2.0
//! One chart as a separate picture, for a document.

use super::args::Chart;
use super::fairness::Fairness;
use super::figure::{CHART_STYLE, Caption, own, svg};
use super::group::{Section, Setup};
use super::overcommit::Overcommit;
use super::page::place;
use super::palette::Palette;
use super::read::Results;
use super::record::Timeline;
use super::waits::WaitCurves;
use anyhow::{Context, Result};
use maud::{Markup, html};

const WIDTH: f64 = 720.0;

/// Room for the title above the chart; on a page the title is text.
const HEADING: f64 = 30.0;

/// Draws the first chart of this kind that the results have.
pub(super) fn picture(chart: Chart, results: &Results, sections: &[Section<'_>]) -> Result<String> {
    let palette = Palette::of(sections);
    let mut setups = sections.iter().flat_map(|of| of.setups.iter().map(move |setup| (of, setup)));
    let found = match chart {
        Chart::Timeline => {
            let first = results.runs.iter().find_map(|run| run.timelines.first());
            first
                .map(Timeline::shown)
                .map(|timeline| alone_in(&timeline.caption(), timeline.picture()))
        }
        kind => setups.find_map(|(section, setup)| one(kind, section, setup, &palette)),
    };
    found.with_context(|| missing(chart))
}

/// Explains why there is no such chart.
fn missing(chart: Chart) -> String {
    match chart {
        Chart::Overcommit => "throughput against overcommit needs points with two numbers of vCPUs",
        Chart::Waits => "no point has waits",
        Chart::Fairness => "no point has shares of two vCPUs",
        Chart::Timeline => "there is no timeline; lab --timeline records them",
    }
    .to_owned()
}

fn one(kind: Chart, section: &Section<'_>, setup: &Setup<'_>, palette: &Palette) -> Option<String> {
    let most = setup.cpus().last().copied();
    let drawn = match kind {
        Chart::Overcommit => {
            let chart = Overcommit::of(section, setup, palette)?;
            (chart.caption(&format!(": {}", section.title)), chart.draw(WIDTH))
        }
        Chart::Waits => {
            let chart = WaitCurves::of(section, setup.at(most?), palette)?;
            (chart.caption(&place(setup, most?)), chart.draw(WIDTH))
        }
        Chart::Fairness => {
            let chart = Fairness::of(setup.at(most?), palette)?;
            (chart.caption(&place(setup, most?)), chart.draw(WIDTH))
        }
        Chart::Timeline => return None,
    };
    let (caption, (height, inside)) = drawn;
    Some(alone(&caption, height, &inside))
}

/// Makes an SVG that contains the style sheet.
fn alone(caption: &Caption, height: f64, inside: &Markup) -> String {
    alone_in(caption, (WIDTH, height, inside.clone()))
}

fn alone_in(caption: &Caption, (width, height, inside): (f64, f64, Markup)) -> String {
    let styled = html! {
        style { (own(CHART_STYLE)) }
        text class="name heading" x="8" y="17" { (caption.title) }
        g transform={ "translate(0 " (HEADING) ")" } { (inside) }
    };
    svg(caption, width, height + HEADING, &styled).into_string()
}
