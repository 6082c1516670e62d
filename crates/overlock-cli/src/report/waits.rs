// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long one waits for the lock: percentiles, as far as the records have them.

use super::figure::{Caption, rows};
use super::group::{Cell, Section};
use super::palette::{Look, Palette, px};
use super::scale::Scale;
use crate::record::Waits;
use crate::units::time;
use maud::{Markup, html};

/// The percentiles that all records have. The step from one to the next is not to scale.
const PERCENTILES: [&str; 4] = ["50 %", "99 %", "99.9 %", "longest"];

/// A chart for one number of vCPUs.
#[derive(Debug)]
pub(super) struct WaitCurves<'a> {
    series: Vec<(&'a str, Look, [f64; 4])>,
    y: Scale,
}

fn values(cell: &Cell<'_>) -> Option<[f64; 4]> {
    let figure = |of: fn(&Waits) -> u64| {
        cell.median(|point| point.wait_ns.as_ref().map(|waits| of(waits) as f64))
    };
    let longest = cell.points.iter().filter_map(|(_, p)| Some(p.wait_ns.as_ref()?.max as f64));
    let (p50, p99, p999) =
        (figure(|waits| waits.p50)?, figure(|waits| waits.p99)?, figure(|waits| waits.p999)?);
    Some([p50, p99, p999, longest.fold(0.0, f64::max)])
}

impl<'a> WaitCurves<'a> {
    /// The waits of these cells, on the vertical axis of their section; nothing if nobody waited.
    pub(super) fn of(
        section: &Section<'_>,
        cells: impl Iterator<Item = &'a Cell<'a>>,
        palette: &Palette,
    ) -> Option<Self> {
        let curve = |cell: &'a Cell<'a>| {
            Some((cell.series.as_str(), palette.look(&cell.series), values(cell)?))
        };
        let mut series: Vec<_> = cells.filter_map(curve).collect();
        series.retain(|(.., values)| values[3] > 0.0);
        let y = Scale::log(section.cells().filter_map(values).flatten(), 0.0, 1.0);
        (!series.is_empty()).then_some(WaitCurves { series, y })
    }

    pub(super) fn caption(&self, place: &str) -> Caption {
        let curve = |(name, _, values): &(&str, Look, [f64; 4])| {
            let parts = PERCENTILES.iter().zip(values).map(|(p, ns)| format!("{p} {}", time(*ns)));
            format!("{name}: {}", parts.collect::<Vec<_>>().join(", "))
        };
        let curves: Vec<String> = self.series.iter().map(curve).collect();
        Caption {
            title: format!("Waits, {place}"),
            description: format!("Percentiles of the wait for the lock. {}.", curves.join("; ")),
        }
    }

    pub(super) fn draw(&self, width: f64) -> (f64, Markup) {
        let height = 220.0;
        let (left, right, top, bottom) = (58.0, width - 14.0, 14.0, height - 30.0);
        let y = self.y.on(bottom, top);
        let x = |at: usize| left + 22.0 + (right - left - 44.0) / 3.0 * at as f64;
        let drawn = html! {
            (rows(&y, &y.ticks(6.0), [left, right], time_short))
            @for (at, percentile) in PERCENTILES.iter().enumerate() {
                path class="tick" d={ "M" (px(x(at))) " " (px(bottom)) "v5" } {}
                text x=(px(x(at))) y=(px(bottom + 19.0)) text-anchor="middle" { (percentile) }
            }
            @for (name, look, values) in &self.series {
                @let corner = |at: usize| format!("{} {}", px(x(at)), px(y.at(values[at])));
                g class={ "series " (look.class()) } {
                    path class="line" d={ "M" ([0, 1, 2, 3].map(corner).join("L")) } {}
                    @for at in 0..4 {
                        g {
                            title { (name) ", " (PERCENTILES[at]) ": " (time(values[at])) }
                            (look.marker(x(at), y.at(values[at]), 3.2))
                        }
                    }
                }
            }
        };
        (height, drawn)
    }
}

/// A tick of a power of ten: `10 us` and not `10.0 us`.
fn time_short(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| ns >= *scale).unwrap_or((1.0, "ns"));
    format!("{} {unit}", ns / scale)
}
