//! One chart as a separate picture, for a document.

use crate::page::figure::{Chart, WIDE, alone};
use crate::page::group::{Section, Setup};
use crate::page::lines;
use crate::page::palette::Palette;
use crate::page::ratios::fairness;
use crate::page::read::Results;
use crate::page::timeline::{self, Lanes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    Overcommit,
    Waits,
    Fairness,
    Timeline,
}

impl Drawing {
    /// All kinds: each with its name, and what it shows.
    pub const ALL: [(Self, &str, &str); 4] = [
        (
            Drawing::Overcommit,
            "overcommit",
            "Throughput against vCPUs for each pCPU, or threads for each CPU",
        ),
        (
            Drawing::Waits,
            "waits",
            "Percentiles of the wait for the lock, at the highest overcommit",
        ),
        (
            Drawing::Fairness,
            "fairness",
            "Jain's index, and the least, average and most that a vCPU did",
        ),
        (Drawing::Timeline, "timeline", "Which vCPU ran where, and which one held the lock"),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Drawing::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| kind)
    }

    pub(crate) fn missing(self) -> &'static str {
        match self {
            Drawing::Overcommit => {
                "throughput against overcommit needs points with two numbers of vCPUs"
            }
            Drawing::Waits => "no point has waits",
            Drawing::Fairness => "no point has shares of two vCPUs",
            Drawing::Timeline => "there is no timeline; bench --timeline records them",
        }
    }
}

pub(crate) fn picture(
    kind: Drawing,
    results: &Results,
    sections: &[Section<'_>],
) -> Option<String> {
    if kind == Drawing::Timeline {
        let first = results.runs.iter().find_map(|run| run.timelines.first())?;
        return Some(alone(&Lanes::of(first), timeline::WIDTH).into_string());
    }
    let palette = Palette::of(sections);
    let mut setups = sections.iter().flat_map(|of| of.setups.iter().map(move |setup| (of, setup)));
    let chart = setups.find_map(|(section, setup)| one(kind, section, setup, &palette))?;
    Some(alone(&*chart, WIDE).into_string())
}

/// Returns a setup's chart; that of the highest overcommit if there is one for each.
fn one<'a>(
    kind: Drawing,
    section: &Section<'_>,
    setup: &'a Setup<'a>,
    palette: &'a Palette,
) -> Option<Box<dyn Chart + 'a>> {
    fn boxed<'a>(chart: impl Chart + 'a) -> Box<dyn Chart + 'a> {
        Box::new(chart)
    }
    let most = setup.cpus().last().copied();
    match kind {
        Drawing::Overcommit => {
            let title = format!("Throughput against overcommit: {}", section.title);
            lines::overcommit(section, setup, palette, title).map(boxed)
        }
        Drawing::Waits => lines::waits(section, setup, most?, palette).map(boxed),
        Drawing::Fairness => fairness(setup, most?, palette).map(boxed),
        Drawing::Timeline => None,
    }
}
