//! Sorts points into experiments, and runs of one experiment together.
//!
//! Points that differ only in lock, policy and number of vCPUs are one experiment. Runs of it on
//! the same machine and from the same commit are pooled in its charts: the median of their medians,
//! from the lowest `low` to the highest `high`. Other runs get their own charts, because they can
//! differ in anything.

use crate::Takers;
use crate::page::label::trimmed;
use crate::page::read::Recording;
use crate::row::{Point, beside};
use crate::stats::{self, Interval};
use crate::units::{DurationArg, counted, three};

#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) title: String,
    /// Whether these are runs of a program.
    pub(crate) is_process: bool,
    pub(crate) setups: Vec<Setup<'a>>,
}

/// The points of one machine and one commit.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) runs: Vec<&'a Recording>,
    pub(crate) cells: Vec<Cell<'a>>,
}

/// One lock with one number of vCPUs, in every run that has it.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) series: String,
    pub(crate) cpus: Option<u32>,
    pub(crate) over: Option<f64>,
    pub(crate) points: Vec<(&'a Recording, &'a Point)>,
}

/// Sorts all points into sections, in their order of appearance.
pub(crate) fn sections(runs: &[Recording]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (run, point) in runs.iter().flat_map(|run| run.points.iter().map(move |p| (run, p))) {
        let title = title(point);
        let at = sections.iter().position(|section| section.title == title);
        let section = match at {
            Some(at) => &mut sections[at],
            None => {
                let is_process = point.takers() == Takers::Program;
                sections.push(Section { title, is_process, setups: Vec::new() });
                sections.last_mut().expect("pushed")
            }
        };
        section.add(run, point);
    }
    sections
}

/// Names the experiment of a point by everything that its points have in common.
fn title(point: &Point) -> String {
    let mut parts = vec![point.workload.clone()];
    let length = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", DurationArg(ns)));
    parts.extend(length("critical section", point.cs_ns));
    match point.contention {
        // A measurement chose the pause, which differs from run to run.
        Some(share) => parts.push(format!("contention {} %", three(100.0 * share))),
        None => parts.extend(length("pause", point.ncs_ns)),
    }
    parts.extend(point.lengths.map(|lengths| format!("lengths {lengths}")));
    parts.extend(point.locks_count.filter(|n| *n > 1).map(|n| format!("{n} locks")));
    parts.extend(
        point.then_ns.map(|[cs, ncs]| format!("then {}/{}", DurationArg(cs), DurationArg(ncs))),
    );
    parts.extend(point.uneven.filter(|n| *n > 1).map(|n| format!("first thread {n} times")));
    parts.extend(point.task.map(|_| point.use_of_lock().trim_start_matches(", ").to_owned()));
    parts.extend(point.metric.as_deref().map(|metric| format!("figure {metric}")));
    let count = |n: u32| counted(n, point.takers().names().1);
    let place = match (!point.takers().has_host(), point.pcpus) {
        (true, Some(n)) => count(n),
        (false, Some(n)) => format!("world {}, {}", point.world, count(n)),
        (_, None) => point.world.clone(),
    };
    format!("{} · {place}{}", parts.join(", "), beside(point.beside))
}

impl<'a> Section<'a> {
    fn add(&mut self, run: &'a Recording, point: &'a Point) {
        let at = self.setups.iter().position(|setup| setup.runs[0].is_like(run));
        let setup = match at {
            Some(at) => &mut self.setups[at],
            None => {
                self.setups.push(Setup { runs: Vec::new(), cells: Vec::new() });
                self.setups.last_mut().expect("pushed")
            }
        };
        if !setup.runs.iter().any(|known| known.name == run.name) {
            setup.runs.push(run);
        }
        let (series, cpus) = (point.series(), point.cpus);
        match setup.cells.iter_mut().find(|cell| cell.series == series && cell.cpus == cpus) {
            Some(cell) => cell.points.push((run, point)),
            None => {
                let points = vec![(run, point)];
                setup.cells.push(Cell { series, cpus, over: point.overcommit(), points });
            }
        }
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        self.setups.iter().flat_map(|setup| &setup.cells)
    }

    pub(crate) fn run_names(&self) -> Vec<&'a str> {
        self.setups
            .iter()
            .flat_map(|setup| setup.runs.iter().map(|run| run.name.as_str()))
            .collect()
    }
}

impl<'a> Setup<'a> {
    pub(crate) fn series(&self) -> Vec<&str> {
        crate::stats::unique(self.cells.iter().map(|cell| cell.series.as_str()))
    }

    /// Returns the intervals of a figure, each with its series, and nothing more to be said of it.
    pub(crate) fn intervals(
        &self,
        of: fn(&Point) -> Option<Interval>,
    ) -> Vec<(&str, Interval, Option<String>)> {
        let row = |cell: &'_ Cell<'_>| cell.interval(of);
        let cells = self.cells.iter();
        cells.filter_map(|cell| Some((cell.series.as_str(), row(cell)?, None))).collect()
    }

    pub(crate) fn cpus(&self) -> Vec<u32> {
        let mut all = crate::stats::unique(self.cells.iter().filter_map(|cell| cell.cpus));
        all.sort_unstable();
        all
    }

    pub(crate) fn at(&self, cpus: u32) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.cpus == Some(cpus))
    }

    /// Formats a number of vCPUs, and the overcommit: `8 vCPUs (4x)`.
    pub(crate) fn place(&self, cpus: u32) -> String {
        self.at(cpus).next().map_or_else(String::new, Cell::place)
    }

    pub(crate) fn label(&self) -> String {
        let names: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        format!("Run{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
    }
}

impl Cell<'_> {
    /// Returns the interval of all runs: the median of medians, from the lowest low to the highest
    /// high.
    pub(crate) fn interval(&self, of: impl Fn(&Point) -> Option<Interval>) -> Option<Interval> {
        let all: Vec<Interval> = self.points.iter().filter_map(|(_, point)| of(point)).collect();
        let medians: Vec<f64> = all.iter().map(|interval| interval.median).collect();
        Some(Interval {
            median: stats::median(&medians)?,
            low: all.iter().map(|interval| interval.low).fold(f64::INFINITY, f64::min),
            high: all.iter().map(|interval| interval.high).fold(0.0, f64::max),
        })
    }

    pub(crate) fn median(&self, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let all: Vec<f64> = self.points.iter().filter_map(|(_, point)| of(point)).collect();
        stats::median(&all)
    }

    pub(crate) fn place(&self) -> String {
        let name = self.points.first().map_or("vCPU", |(_, point)| point.takers().names().0);
        let plural = if self.cpus == Some(1) { "" } else { "s" };
        match (self.cpus, self.over) {
            (Some(cpus), Some(over)) => format!("{cpus} {name}{plural} ({}x)", three_short(over)),
            (Some(cpus), None) => format!("{cpus} {name}{plural}"),
            (None, _) => String::new(),
        }
    }
}

/// Formats `2` and `0.5` instead of `2.00` and `0.500`.
pub(crate) fn three_short(value: f64) -> String {
    trimmed(&three(value))
}
