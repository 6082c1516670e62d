//! How long waits for the lock last: a curve, or percentiles, depending on the records.
//!
//! The horizontal axis is the share of waits that are no longer, each nine as wide as the one
//! before (like G. Tene's plots of HdrHistogram); the longest wait is at the right end.

use crate::WaitNs;
use crate::page::figure::{Caption, Chart, rows};
use crate::page::group::{Cell, Section};
use crate::page::label;
use crate::page::palette::{Look, Palette, px};
use crate::page::scale::Scale;
use crate::stats::merged;
use crate::units::time;
use maud::{Markup, html};

/// The percentiles that all records have.
const PERCENTILES: [&str; 4] = ["50 %", "99 %", "99.9 %", "longest"];

/// The shares of waits that are longer than these; none is longer than the longest.
const LONGER: [f64; 4] = [0.5, 0.01, 0.001, 0.0];

#[derive(Debug)]
struct Curve<'a> {
    name: &'a str,
    look: Look,
    percentiles: [f64; 4],
    /// The share of waits that are longer than this many nanoseconds; empty if the records only
    /// have percentiles.
    longer: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(crate) struct WaitCurves<'a> {
    series: Vec<Curve<'a>>,
    y: Scale,
    /// The number of nines from left to right.
    nines: f64,
    place: String,
}

fn values(cell: &Cell<'_>) -> Option<[f64; 4]> {
    let figure = |of: fn(&WaitNs) -> u64| {
        cell.median(|point| point.wait_ns.as_ref().map(|waits| of(waits) as f64))
    };
    let longest = cell.points.iter().filter_map(|(_, p)| Some(p.wait_ns.as_ref()?.max as f64));
    let (p50, p99, p999) =
        (figure(|waits| waits.p50)?, figure(|waits| waits.p99)?, figure(|waits| waits.p999)?);
    Some([p50, p99, p999, longest.fold(0.0, f64::max)])
}

fn longer(cell: &Cell<'_>) -> Vec<(f64, f64)> {
    let counts = merged(cell.points.iter().map(|(_, point)| &point.wait_counts[..]));
    let total = counts.iter().map(|&(_, count)| count as f64).sum::<f64>();
    let share = |left: &mut f64, (ns, count): (u64, u64)| {
        *left -= count as f64;
        Some(((*left / total).max(0.0), ns as f64))
    };
    counts.into_iter().scan(total, share).collect()
}

impl<'a> WaitCurves<'a> {
    /// Draws the waits of these cells, on the vertical axis of their section; nothing if there were
    /// no waits.
    pub(crate) fn of(
        section: &Section<'_>,
        cells: impl Iterator<Item = &'a Cell<'a>>,
        palette: &Palette,
        place: String,
    ) -> Option<Self> {
        let curve = |cell: &'a Cell<'a>| {
            let (look, percentiles) = (palette.look(&cell.series), values(cell)?);
            Some(Curve { name: &cell.series, look, percentiles, longer: longer(cell) })
        };
        let mut series: Vec<_> = cells.filter_map(curve).collect();
        series.retain(|curve| curve.percentiles[3] > 0.0);
        let y = Scale::log(section.cells().filter_map(values).flatten(), 0.0, 1.0);
        let rarest = series.iter().flat_map(|curve| &curve.longer).map(|&(share, _)| share);
        let rarest = rarest.filter(|share| *share > 0.0).fold(0.001, f64::min);
        let nines = (-rarest.log10() + 0.5).clamp(3.5, 7.0);
        (!series.is_empty()).then_some(WaitCurves { series, y, nines, place })
    }
}

impl Chart for WaitCurves<'_> {
    fn caption(&self) -> Caption {
        let curve = |Curve { name, percentiles, .. }: &Curve<'_>| {
            let parts = PERCENTILES.iter().zip(percentiles);
            let parts = parts.map(|(p, ns)| format!("{p} {}", time(*ns)));
            format!("{name}: {}", parts.collect::<Vec<_>>().join(", "))
        };
        let curves: Vec<String> = self.series.iter().map(curve).collect();
        Caption {
            title: format!("Waits, {}", self.place),
            description: format!("Percentiles of the wait for the lock. {}.", curves.join("; ")),
        }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let height = 238.0;
        let (left, right, top, bottom) = (58.0, width - 14.0, 22.0, height - 48.0);
        let y = self.y.on(bottom, top);
        let x = |longer: f64| {
            let nines = (-longer.max(1e-9).log10()).clamp(0.0, self.nines);
            left + (right - left - 22.0) * nines / self.nines
        };
        // Where there is no room for all of them, the ends and the 99th percentile are named.
        let percentiles = [0, 3, 1, 2].map(|at: usize| (x(LONGER[at]), PERCENTILES[at].to_owned()));
        let drawn = html! {
            text class="unit" x="8" y="10" { "wait for the lock" }
            text class="unit" x=(px((left + right) / 2.0)) y=(px(bottom + 38.0))
                text-anchor="middle" { "of the waits are at most this long" }
            (rows(&y, &y.ticks(6.0), [left, right], time_short))
            @for longer in LONGER {
                path class="tick" d={ "M" (px(x(longer))) " " (px(bottom)) "v5" } {}
            }
            @for (across, percentile) in label::spaced(percentiles) {
                text x=(px(across)) y=(px(bottom + 19.0)) text-anchor="middle" { (percentile) }
            }
            @for curve in &self.series {
                @let Curve { name, look, percentiles, .. } = curve;
                @let corner = |(longer, ns): (f64, f64)| {
                    format!("{} {}", px(x(longer)), px(y.at(ns)))
                };
                g class={ "series " (look.class()) } {
                    path class="line" d={
                        "M" (curve.corners().map(corner).collect::<Vec<_>>().join("L")) } {}
                    @for at in (0..4).filter(|at| percentiles[*at] > 0.0) {
                        g {
                            title { (name) ", " (PERCENTILES[at]) ": " (time(percentiles[at])) }
                            (look.marker(x(LONGER[at]), y.at(percentiles[at]), 3.2))
                        }
                    }
                }
            }
        };
        (height, drawn)
    }
}

impl Curve<'_> {
    /// Returns the corners of the line: all known values, and the longest at its end. A wait of 0
    /// has no place among powers of ten.
    fn corners(&self) -> impl Iterator<Item = (f64, f64)> {
        let percentiles = LONGER.into_iter().zip(self.percentiles);
        let known = if self.longer.is_empty() { 0 } else { 3 };
        let curve = self.longer.iter().copied().filter(|&(longer, _)| longer > 0.0);
        curve.chain(percentiles.skip(known)).filter(|&(_, ns)| ns > 0.0)
    }
}

/// Formats a tick of a power of ten: `10 us` instead of `10.0 us`.
fn time_short(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| ns >= *scale).unwrap_or((1.0, "ns"));
    format!("{} {unit}", ns / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::label::oracle::faults;
    use crate::page::sample::{crowd, only, point, read};

    fn drawn(section: &Section<'_>) -> Option<String> {
        let (setup, palette) = (&section.setups[0], Palette::of(std::slice::from_ref(section)));
        let chart = WaitCurves::of(section, setup.at(2), &palette, setup.place(2))?;
        assert_eq!(chart.caption().title, "Waits, 2 vCPUs (1x)");
        let (height, inside) = chart.draw(340.0);
        let drawn = inside.into_string();
        assert_eq!(faults(&drawn, 340.0, height), [""; 0]);
        Some(drawn)
    }

    #[test]
    fn without_counts_the_line_has_the_percentiles() {
        let results = read(&[point("hybrid", 2, 1.0)]);
        let section = only(&results);
        let drawn = drawn(&section).unwrap();
        // From 100 ns at the bottom to 1 ms at the top, each power of ten 42 pixels;
        // from 0.3 nines at 79 to 3 at 269.
        assert!(drawn.contains("M79.2 190L198.6 135.4L268.9 86L304 38.7"), "{drawn}");
    }

    #[test]
    fn with_counts_the_line_has_all_waits() {
        let counts = r#""wait_counts":[[100,900],[2000,90],[30000,9],[400000,1]],"wait_ns""#;
        let results = read(&[point("hybrid", 2, 1.0).replace(r#""wait_ns""#, counts)]);
        let section = only(&results);
        let drawn = drawn(&section).unwrap();
        // 100 of 1000 waits are longer than 100 ns, 10 longer than 2 us, 1 longer than 30 us.
        let at = drawn.find(r#"class="line" d="M"#).unwrap();
        assert_eq!(drawn[at..].split('"').nth(3).unwrap().matches('L').count(), 3, "{drawn}");
    }

    #[test]
    fn labels_can_be_read_and_no_waits_are_no_chart() {
        assert!(drawn(&only(&crowd())).is_some());
        let half = point("hybrid", 2, 1.0).replace(r#""p50":100"#, r#""p50":0"#);
        let line = drawn(&only(&read(&[half]))).unwrap();
        assert!(!line.contains("50 %: 0 ns") && !line.contains("NaN"), "{line}");
        let none = point("hybrid", 2, 1.0).replace("400000", "0");
        assert!(drawn(&only(&read(&[none]))).is_none());
    }
}
