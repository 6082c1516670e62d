// SPDX-License-Identifier: MIT OR Apache-2.0
//! One chart as a separate picture, for a document.

use crate::fairness::Fairness;
use crate::figure::{CHART_STYLE, Caption, own, svg};
use crate::group::{Section, Setup};
use crate::overcommit::Overcommit;
use crate::page::place;
use crate::palette::Palette;
use crate::read::Results;
use crate::record::Timeline;
use crate::waits::WaitCurves;
use anyhow::{Context, Result};
use maud::{Markup, html};

/// A chart that can stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Throughput against vCPUs for each pCPU, or threads for each CPU.
    Overcommit,
    /// Percentiles of the wait for the lock, at the highest overcommit.
    Waits,
    /// Jain's index, and the least, average and most that a vCPU did.
    Fairness,
    /// Which vCPU ran where, and which one held the lock.
    Timeline,
}

impl Kind {
    /// All kinds: each with its name, and what it shows.
    pub const ALL: [(Self, &str, &str); 4] = [
        (
            Kind::Overcommit,
            "overcommit",
            "Throughput against vCPUs for each pCPU, or threads for each CPU",
        ),
        (Kind::Waits, "waits", "Percentiles of the wait for the lock, at the highest overcommit"),
        (
            Kind::Fairness,
            "fairness",
            "Jain's index, and the least, average and most that a vCPU did",
        ),
        (Kind::Timeline, "timeline", "Which vCPU ran where, and which one held the lock"),
    ];

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| kind)
    }
}

const WIDTH: f64 = 720.0;

/// Room for the title above the chart; on a page the title is text.
const HEADING: f64 = 30.0;

/// Draws the first chart of this kind that the results have.
pub(crate) fn picture(chart: Kind, results: &Results, sections: &[Section<'_>]) -> Result<String> {
    let palette = Palette::of(sections);
    let mut setups = sections.iter().flat_map(|of| of.setups.iter().map(move |setup| (of, setup)));
    let found = match chart {
        Kind::Timeline => {
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
fn missing(chart: Kind) -> String {
    match chart {
        Kind::Overcommit => "throughput against overcommit needs points with two numbers of vCPUs",
        Kind::Waits => "no point has waits",
        Kind::Fairness => "no point has shares of two vCPUs",
        Kind::Timeline => "there is no timeline; lab --timeline records them",
    }
    .to_owned()
}

fn one(kind: Kind, section: &Section<'_>, setup: &Setup<'_>, palette: &Palette) -> Option<String> {
    let most = setup.cpus().last().copied();
    let drawn = match kind {
        Kind::Overcommit => {
            let chart = Overcommit::of(section, setup, palette)?;
            (chart.caption(&format!(": {}", section.title)), chart.draw(WIDTH))
        }
        Kind::Waits => {
            let chart = WaitCurves::of(section, setup.at(most?), palette)?;
            (chart.caption(&place(setup, most?)), chart.draw(WIDTH))
        }
        Kind::Fairness => {
            let chart = Fairness::of(setup.at(most?), palette)?;
            (chart.caption(&place(setup, most?)), chart.draw(WIDTH))
        }
        Kind::Timeline => return None,
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
