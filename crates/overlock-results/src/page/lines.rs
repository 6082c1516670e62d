//! Lines, one for each lock: throughput against overcommit, and how long waits last.

use crate::WaitNs;
use crate::page::figure::{Caption, Chart, across, rows, told};
use crate::page::group::{Cell, Section, Setup, three_short};
use crate::page::label::{self, apart, trimmed};
use crate::page::palette::{Look, Palette, px};
use crate::page::scale::Scale;
use crate::stats::{Interval, merged, unique};
use crate::units::{count, time};
use maud::{Markup, html};

#[derive(Debug)]
pub(crate) struct Lines<'a> {
    title: String,
    /// What the values are, for the vertical axis.
    values: &'static str,
    places: String,
    lines: Vec<Line<'a>>,
    /// Places along the horizontal axis as parts of its length, in the order of precedence.
    ticks: Vec<(f64, String)>,
    y: Scale,
    show: fn(f64) -> String,
    height: f64,
}

#[derive(Debug)]
struct Line<'a> {
    name: &'a str,
    look: Look,
    /// The places along the horizontal axis, and the values there.
    corners: Vec<(f64, f64)>,
    dots: Vec<Dot>,
}

/// A value with a marker, and its interval if it has one.
#[derive(Debug)]
struct Dot {
    x: f64,
    y: f64,
    range: Option<[f64; 2]>,
    place: String,
}

/// The distance between the names at the ends of the lines.
const LABEL: f64 = 15.0;

/// The ratio of the highest to the lowest throughput above which a linear axis hides the lowest.
const FAR_APART: f64 = 50.0;

/// Charts wider than this have the names of the lines at their ends.
const WIDE: f64 = 500.0;

/// How much each lock achieves as more vCPUs share the pCPUs; nothing if there are fewer than two
/// overcommits. The vertical axis is that of the whole section, so that setups can be compared.
pub(crate) fn overcommit<'a>(
    section: &Section<'_>,
    setup: &'a Setup<'_>,
    palette: &Palette,
    title: String,
) -> Option<Lines<'a>> {
    let of = |cell: &Cell<'_>| Some((cell.over?, cell.interval(|point| point.ops_per_s)?));
    let mut overs = unique(setup.cells.iter().filter_map(of).map(|(over, _)| over));
    overs.sort_by(f64::total_cmp);
    let (first, last) = (*overs.first()?, *overs.last()?);
    if first >= last || first <= 0.0 {
        return None;
    }
    let x = |over: f64| (over / first).ln() / (last / first).ln();
    let line = |name: &'a str| {
        let cells = setup.cells.iter().filter(|cell| cell.series == name);
        let mut dots: Vec<(f64, Interval)> = cells.filter_map(of).collect();
        dots.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dot = |&(over, of): &(f64, Interval)| Dot {
            x: x(over),
            y: of.median,
            range: Some([of.low, of.high]),
            place: format!("{}x", three_short(over)),
        };
        let corners = dots.iter().map(|(over, of)| (x(*over), of.median)).collect();
        Line { name, look: palette.look(name), corners, dots: dots.iter().map(dot).collect() }
    };
    let mut lines: Vec<Line<'a>> = setup.series().into_iter().map(line).collect();
    lines.retain(|line| !line.dots.is_empty());
    let intervals = section.cells().filter_map(|cell| cell.interval(|p| p.ops_per_s));
    let ends: Vec<f64> = intervals.flat_map(|of| [of.low, of.high]).collect();
    let highest = ends.iter().copied().fold(0.0, f64::max);
    let lowest = ends.iter().copied().filter(|low| *low > 0.0).fold(f64::INFINITY, f64::min);
    let y = if highest / lowest > FAR_APART {
        Scale::log(ends.into_iter(), 0.0, 1.0)
    } else {
        Scale::linear(highest, 0.0, 1.0)
    };
    let (taker, shared) = setup.cells.first()?.points.first()?.1.takers().names();
    Some(Lines {
        title,
        values: "operations in a second",
        places: format!("{taker}s for each {shared}"),
        // A wide chart has room for twelve labels.
        ticks: overs
            .iter()
            .step_by(overs.len().div_ceil(12))
            .map(|over| (x(*over), format!("{}x", three_short(*over))))
            .collect(),
        height: 320_f64.max(72.0 + LABEL * lines.len() as f64),
        lines,
        y,
        show: count,
    })
}

/// The percentiles that all records have, each with the share of waits that are longer; none is
/// longer than the longest.
const PERCENTILES: [(&str, f64); 4] =
    [("50 %", 0.5), ("99 %", 0.01), ("99.9 %", 0.001), ("longest", 0.0)];

fn percentiles(cell: &Cell<'_>) -> Option<[f64; 4]> {
    let figure = |of: fn(&WaitNs) -> u64| {
        cell.median(|point| point.wait_ns.as_ref().map(|waits| of(waits) as f64))
    };
    let longest = cell.points.iter().filter_map(|(_, p)| Some(p.wait_ns.as_ref()?.max as f64));
    let [p50, p99] = [figure(|waits| waits.p50)?, figure(|waits| waits.p99)?];
    Some([p50, p99, figure(|waits| waits.p999)?, longest.fold(0.0, f64::max)])
}

/// The share of waits that are longer, and than how many nanoseconds; empty if the records only
/// have percentiles.
fn longer(cell: &Cell<'_>) -> Vec<(f64, f64)> {
    let counts = merged(cell.points.iter().map(|(_, point)| &point.wait_counts[..]));
    let total = counts.iter().map(|&(_, count)| count as f64).sum::<f64>();
    let share = |left: &mut f64, (ns, count): (u64, u64)| {
        *left -= count as f64;
        Some(((*left / total).max(0.0), ns as f64))
    };
    counts.into_iter().scan(total, share).filter(|&(longer, _)| longer > 0.0).collect()
}

/// How long the waits of a setup last with so many vCPUs, on the vertical axis of its section;
/// nothing if there were no waits.
///
/// The horizontal axis is the share of waits that are no longer, each nine as wide as the one
/// before (like G. Tene's plots of HdrHistogram); the longest wait is at the right end. A wait of 0
/// has no place among powers of ten.
pub(crate) fn waits<'a>(
    section: &Section<'_>,
    setup: &'a Setup<'_>,
    cpus: u32,
    palette: &Palette,
) -> Option<Lines<'a>> {
    let cells = setup.at(cpus).filter_map(|cell| Some((cell, percentiles(cell)?, longer(cell))));
    let cells: Vec<_> = cells.filter(|(_, all, _)| all[3] > 0.0).collect();
    let rarest = cells.iter().flat_map(|(.., longer)| longer).map(|&(share, _)| share);
    let nines = (0.5 - rarest.fold(0.001, f64::min).log10()).clamp(3.5, 7.0);
    let x = |longer: f64| (-longer.max(1e-9).log10()).clamp(0.0, nines) / nines;
    let line = |(cell, all, longer): &(&'a Cell<'_>, [f64; 4], Vec<(f64, f64)>)| {
        let marks = PERCENTILES.iter().zip(all).filter(|(_, ns)| **ns > 0.0);
        let dot = |(&(place, longer), &y): (&(&str, f64), &f64)| Dot {
            x: x(longer),
            y,
            range: None,
            place: place.to_owned(),
        };
        let known = if longer.is_empty() { 0 } else { 3 };
        let ends = PERCENTILES.iter().zip(all).skip(known).map(|(&(_, longer), &ns)| (longer, ns));
        let corners = longer.iter().copied().chain(ends).filter(|&(_, ns)| ns > 0.0);
        Line {
            name: &cell.series,
            look: palette.look(&cell.series),
            corners: corners.map(|(longer, ns)| (x(longer), ns)).collect(),
            dots: marks.map(dot).collect(),
        }
    };
    (!cells.is_empty()).then(|| Lines {
        title: format!("Waits, {}", setup.place(cpus)),
        values: "wait for the lock",
        places: "of the waits are at most this long".into(),
        // Where there is no room for all of them, the ends and the 99th percentile are named.
        ticks: [0, 3, 1, 2].map(|at| (x(PERCENTILES[at].1), PERCENTILES[at].0.to_owned())).into(),
        y: Scale::log(section.cells().filter_map(percentiles).flatten(), 0.0, 1.0),
        show: time,
        height: 238.0,
        lines: cells.iter().map(line).collect(),
    })
}

impl Chart for Lines<'_> {
    fn caption(&self) -> Caption {
        let line = |line: &Line<'_>| {
            let dots: Vec<String> = line.dots.iter().map(|dot| dot.text(self.show)).collect();
            format!("{}: {}", line.name, dots.join(", "))
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        Caption { title: self.title.clone(), description: told(self.values, &lines) }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let longest = self.lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        let names = 7.2 * longest.min(28) as f64;
        let right = width - if width > WIDE { 24.0 + names } else { 14.0 };
        let (left, top, bottom) = (58.0, 26.0, self.height - 46.0);
        let x = Scale::span(0.0, 1.0, left + 14.0, right - 14.0);
        let y = self.y.on(bottom, top);
        let ticks = self.ticks.iter().map(|(at, text)| (x.at(*at), text.clone()));
        let drawn = html! {
            text class="unit" x="8" y="13" { (self.values) }
            (rows(&y, &y.ticks(5.0), [left, right], |value| trimmed(&(self.show)(value))))
            (across(label::spaced(ticks), bottom, &self.places, (left + right) / 2.0))
            @for (index, line) in self.lines.iter().enumerate() {
                (self.line(index, line, &x, &y))
            }
            @if width > WIDE { (self.names(right, names, [top, bottom], &x, &y)) }
        };
        (self.height, drawn)
    }
}

impl Lines<'_> {
    fn line(&self, index: usize, line: &Line<'_>, x: &Scale, y: &Scale) -> Markup {
        // Intervals at the same place are drawn side by side.
        let middle = (self.lines.len() - 1) as f64 / 2.0;
        let step = (16.0 / self.lines.len() as f64).min(4.0);
        let has_ranges = line.dots.iter().any(|dot| dot.range.is_some());
        let aside = if has_ranges { (index as f64 - middle) * step } else { 0.0 };
        let corner =
            |&(at, value): &(f64, f64)| format!("{} {}", px(x.at(at) + aside), px(y.at(value)));
        let corners: Vec<String> = line.corners.iter().map(corner).collect();
        html! {
            g class={ "series " (line.look.class()) } {
                path class="line" d={ "M" (corners.join("L")) } {}
                @for dot in &line.dots {
                    @let across = x.at(dot.x) + aside;
                    g data-on="y" {
                        title { (line.name) ", " (dot.text(self.show)) }
                        @if let Some([low, high]) = dot.range {
                            path class="range" d={
                                "M" (px(across)) " " (px(y.at(low))) "V" (px(y.at(high))) } {}
                        }
                        (line.look.marker(across, y.at(dot.y), 3.4))
                    }
                }
            }
        }
    }

    /// Draws the names of the lines beside their ends.
    fn names(
        &self,
        right: f64,
        room: f64,
        [top, bottom]: [f64; 2],
        x: &Scale,
        y: &Scale,
    ) -> Markup {
        let end = |line: &Line<'_>| line.corners.last().map_or((1.0, 0.0), |&end| end);
        let ends: Vec<(f64, f64)> = self.lines.iter().map(end).collect();
        let heights: Vec<f64> = ends.iter().map(|(_, value)| y.at(*value)).collect();
        let labels = apart(&heights, LABEL, top, bottom);
        html! { @for (at, line) in self.lines.iter().enumerate() {
            path class="leader" d={
                "M" (px(x.at(ends[at].0) + 8.0)) " " (px(heights[at]))
                "L" (px(right + 4.0)) " " (px(labels[at])) } {}
            g class=(line.look.class()) {
                text class="name" x=(px(right + 8.0)) y=(px(labels[at] + 4.0)) {
                    (label::cut(line.name, room))
                }
            }
        } }
    }
}

impl Dot {
    fn text(&self, show: fn(f64) -> String) -> String {
        let range = self.range.map(|ends| ends.map(show));
        let range = range.map(|[low, high]| format!(" ({low} to {high})"));
        format!("{}: {}{}", self.place, show(self.y), range.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::sample::{crowd, only, point, read};

    fn drawn(rows: &[String], chart: fn(&Section<'_>, &Palette) -> Option<Markup>) -> String {
        let results = read(rows);
        let section = only(&results);
        let palette = Palette::of(std::slice::from_ref(&section));
        chart(&section, &palette).map_or_else(String::new, Markup::into_string)
    }

    fn over(section: &Section<'_>, palette: &Palette) -> Option<Markup> {
        let chart = overcommit(section, &section.setups[0], palette, "title".into())?;
        Some(chart.draw(720.0).1)
    }

    fn wait(section: &Section<'_>, palette: &Palette) -> Option<Markup> {
        Some(waits(section, &section.setups[0], 2, palette)?.draw(340.0).1)
    }

    #[test]
    fn a_line_goes_through_the_medians() {
        let drawn = |rows: &[String]| drawn(rows, over);
        let two = drawn(&[point("hybrid", 2, 100.0), point("hybrid", 4, 50.0)]);
        // The axis goes from 0 at 274 to 150 at 26; the interval of the first is 90 to 110.
        for part in ["M72 108.7L638.8 191.3", "M72 125.2V92.1", ">hybrid</text>", ">1x</text>"] {
            assert!(two.contains(part), "{part} is not in {two}");
        }
        assert_eq!(drawn(&[point("hybrid", 2, 100.0), point("ticket", 2, 50.0)]), "");
    }

    #[test]
    fn throughputs_that_are_far_apart_have_a_logarithmic_axis() {
        let results = crowd();
        let section = only(&results);
        let drawn = over(&section, &Palette::of(std::slice::from_ref(&section))).unwrap();
        for tick in ["100", "1 k", "10 k", "100 k", "1 M"] {
            assert!(drawn.0.contains(&format!(">{tick}</text>")), "{tick}: {}", drawn.0);
        }
    }

    #[test]
    fn a_curve_has_all_waits_or_the_percentiles_and_none_of_zero() {
        let counts = r#""wait_counts":[[0,50],[100,850],[2000,90],[30000,9],[444444,1]],"wait_ns""#;
        let four = point("hybrid", 2, 1.0);
        for (row, corners, marks) in [
            (four.clone(), 4, 4),
            (four.replace(r#""p50":111"#, r#""p50":0"#), 3, 3),
            (four.replace(r#""wait_ns""#, counts), 4, 4),
        ] {
            let drawn = drawn(&[row], wait);
            let line = drawn.split(r#"class="line" d="M"#).nth(1).unwrap();
            let line = line.split('"').next().unwrap();
            assert_eq!(line.matches('L').count() + 1, corners, "{drawn}");
            assert_eq!(drawn.matches(r#"class="mark"#).count(), marks, "{drawn}");
        }
        assert_eq!(drawn(&[four.replace("444444", "0")], wait), "");
    }
}
