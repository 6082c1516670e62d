//! Throughput against overcommit: how much each lock achieves as more vCPUs share the pCPUs.

use crate::page::figure::{Caption, Chart, rows};
use crate::page::group::{Cell, Section, Setup, three_short};
use crate::page::label::{self, apart, trimmed};
use crate::page::palette::{Look, Palette, px};
use crate::page::scale::Scale;
use crate::stats::Interval;
use crate::stats::unique;
use crate::units::count;
use maud::{Markup, html};

#[derive(Debug)]
pub(crate) struct Overcommit<'a> {
    series: Vec<Line<'a>>,
    overs: Vec<f64>,
    y: Scale,
    axis: String,
    title: String,
}

#[derive(Debug)]
struct Line<'a> {
    name: &'a str,
    look: Look,
    dots: Vec<(f64, Interval)>,
}

/// A height that suits wide screens.
const HEIGHT: f64 = 320.0;

/// The distance between the names at the ends of the lines.
const LABEL: f64 = 15.0;

/// The ratio of the highest to the lowest throughput above which a linear axis hides the lowest.
const FAR_APART: f64 = 50.0;

fn dots(cells: &[&Cell<'_>]) -> Vec<(f64, Interval)> {
    let dot = |cell: &&Cell<'_>| Some((cell.over?, cell.interval(|point| point.ops_per_s)?));
    let mut dots: Vec<(f64, Interval)> = cells.iter().filter_map(dot).collect();
    dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    dots
}

impl<'a> Overcommit<'a> {
    /// Makes the chart; nothing if there are fewer than two overcommits. The vertical axis is that
    /// of the whole section, so that setups can be compared.
    pub(crate) fn of(
        section: &Section<'_>,
        setup: &'a Setup<'_>,
        palette: &Palette,
        title: String,
    ) -> Option<Self> {
        let line = |name: &'a str| {
            let cells: Vec<&Cell<'_>> =
                setup.cells.iter().filter(|cell| cell.series == name).collect();
            Line { name, look: palette.look(name), dots: dots(&cells) }
        };
        let mut series: Vec<Line<'a>> = setup.series().into_iter().map(line).collect();
        series.retain(|line| !line.dots.is_empty());
        let mut overs = unique(series.iter().flat_map(|line| &line.dots).map(|dot| dot.0));
        overs.sort_by(f64::total_cmp);
        if overs.len() < 2 || overs[0] <= 0.0 {
            return None;
        }
        let intervals = || section.cells().filter_map(|cell| cell.interval(|p| p.ops_per_s));
        let lowest = intervals().map(|of| of.low).filter(|low| *low > 0.0);
        let (lowest, highest) = (
            lowest.fold(f64::INFINITY, f64::min),
            intervals().map(|of| of.high).fold(0.0, f64::max),
        );
        let y = if highest / lowest > FAR_APART {
            Scale::log(intervals().flat_map(|of| [of.low, of.high]), 0.0, 1.0)
        } else {
            Scale::linear(highest, 0.0, 1.0)
        };
        let point = setup.cells.iter().find_map(|cell| cell.points.first())?.1;
        let axis = {
            let (taker, shared) = point.takers().names();
            format!("{taker}s for each {shared}")
        };
        Some(Overcommit { series, overs, y, axis, title })
    }

    /// Returns the measured overcommits, or as many as there is room for.
    fn ticks(&self, is_wide: bool) -> impl Iterator<Item = f64> {
        let room = if is_wide { 12 } else { 6 };
        self.overs.iter().copied().step_by(self.overs.len().div_ceil(room))
    }

    fn line(&self, index: usize, line: &Line<'_>, x: &Scale, y: &Scale) -> Markup {
        // Intervals at the same place are drawn side by side.
        let middle = (self.series.len() - 1) as f64 / 2.0;
        let step = (16.0 / self.series.len() as f64).min(4.0);
        let aside = (index as f64 - middle) * step;
        let at = |over: f64| x.at(over.log2()) + aside;
        let corners: Vec<String> = line
            .dots
            .iter()
            .map(|(over, of)| format!("{} {}", px(at(*over)), px(y.at(of.median))))
            .collect();
        html! {
            g class={ "series " (line.look.class()) } {
                path class="line" d={ "M" (corners.join("L")) } {}
                @for (over, of) in &line.dots {
                    @let across = at(*over);
                    g {
                        title {
                            (line.name) " at " (three_short(*over)) "x: " (count(of.median))
                            " ops/s (" (count(of.low)) " to " (count(of.high)) ")"
                        }
                        path class="range" d={
                            "M" (px(across)) " " (px(y.at(of.low))) "V" (px(y.at(of.high))) } {}
                        (line.look.marker(across, y.at(of.median), 3.6))
                    }
                }
            }
        }
    }
}

impl Chart for Overcommit<'_> {
    fn caption(&self) -> Caption {
        let line = |line: &Line<'_>| {
            let dot = |(over, of): &(f64, Interval)| {
                let (low, high) = (count(of.low), count(of.high));
                format!("{}x {} ({low} to {high})", three_short(*over), count(of.median))
            };
            let dots: Vec<String> = line.dots.iter().map(dot).collect();
            format!("{}: {}", line.name, dots.join(", "))
        };
        let lines: Vec<String> = self.series.iter().map(line).collect();
        Caption {
            title: self.title.clone(),
            description: format!("Operations in a second. {}.", lines.join("; ")),
        }
    }

    /// Draws the chart; a wide one has the names at the ends of the lines, a narrow one below.
    fn draw(&self, width: f64) -> (f64, Markup) {
        let is_wide = width > 500.0;
        let longest = self.series.iter().map(|line| line.name.len()).max().unwrap_or(0) as f64;
        let names = longest.min(28.0);
        let right = if is_wide { width - 24.0 - 7.2 * names } else { width - 14.0 };
        let height = HEIGHT.max(72.0 + LABEL * self.series.len() as f64);
        let (left, top, bottom) = (58.0, 26.0, height - 46.0);
        let x = Scale::span(
            self.overs[0].log2(),
            self.overs[self.overs.len() - 1].log2(),
            left + 14.0,
            right - 14.0,
        );
        let y = self.y.on(bottom, top);
        let ends: Vec<f64> =
            self.series.iter().map(|line| y.at(line.dots[line.dots.len() - 1].1.median)).collect();
        let labels = apart(&ends, LABEL, top, bottom);
        let ticks =
            self.ticks(is_wide).map(|over| (x.at(over.log2()), format!("{}x", three_short(over))));
        let drawn = html! {
            text class="unit" x=(px(left - 50.0)) y="13" { "ops/s" }
            (rows(&y, &y.ticks(5.0), [left, right], |value| trimmed(&count(value))))
            @for (at, text) in label::spaced(ticks) {
                path class="tick" d={ "M" (px(at)) " " (px(bottom)) "v5" } {}
                text x=(px(at)) y=(px(bottom + 19.0)) text-anchor="middle" { (text) }
            }
            text class="unit" x=(px((left + right) / 2.0)) y=(px(bottom + 38.0))
                text-anchor="middle" { (self.axis) }
            @for (index, line) in self.series.iter().enumerate() {
                (self.line(index, line, &x, &y))
            }
            @if is_wide {
                @for (line, (end, label)) in self.series.iter().zip(ends.iter().zip(&labels)) {
                    @let from = x.at(line.dots[line.dots.len() - 1].0.log2()) + 8.0;
                    path class="leader" d={
                        "M" (px(from)) " " (px(*end)) "L" (px(right + 4.0)) " " (px(*label)) } {}
                    g class=(line.look.class()) {
                        text class="name" x=(px(right + 8.0)) y=(px(label + 4.0)) {
                            (label::cut(line.name, 7.2 * names))
                        }
                    }
                }
            }
        };
        (height, drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::label::oracle::faults;
    use crate::page::sample::{crowd, only, point, read};

    fn drawn(section: &Section<'_>, width: f64) -> Option<(f64, String)> {
        let palette = Palette::of(std::slice::from_ref(section));
        let chart = Overcommit::of(section, &section.setups[0], &palette, "title".into())?;
        let (height, inside) = chart.draw(width);
        Some((height, inside.into_string()))
    }

    #[test]
    fn a_line_goes_through_the_medians() {
        let results = read(&[point("hybrid", 2, 100.0), point("hybrid", 4, 50.0)]);
        let section = only(&results);
        let (_, drawn) = drawn(&section, 720.0).unwrap();
        // The axis goes from 0 at 274 to 150 at 26; the interval of the first is 90 to 110.
        for part in ["M72 108.7L638.8 191.3", "M72 125.2V92.1", ">hybrid</text>", ">1x</text>"] {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
    }

    #[test]
    fn throughputs_that_are_far_apart_have_a_logarithmic_axis() {
        let results = crowd();
        let section = only(&results);
        let (_, drawn) = drawn(&section, 720.0).unwrap();
        for tick in ["100", "1 k", "10 k", "100 k", "1 M"] {
            assert!(drawn.contains(&format!(">{tick}</text>")), "{tick}: {drawn}");
        }
    }

    #[test]
    fn one_overcommit_is_no_line() {
        let results = read(&[point("hybrid", 2, 100.0), point("ticket", 2, 50.0)]);
        assert!(drawn(&only(&results), 720.0).is_none());
    }

    #[test]
    fn labels_can_be_read() {
        let mut many: Vec<String> = Vec::new();
        for lock in 0..30 {
            many.extend([2, 3, 4, 100].map(|cpus| point(&format!("lock-{lock}"), cpus, 1e6)));
        }
        for results in [crowd(), read(&many)] {
            for width in [720.0, 340.0] {
                let (height, drawn) = drawn(&only(&results), width).unwrap();
                assert_eq!(faults(&drawn, width, height), [""; 0]);
            }
        }
    }
}
