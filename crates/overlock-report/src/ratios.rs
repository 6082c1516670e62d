// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intervals one below the other: ratios to something at 1, or figures of locks at one point.

use crate::figure::Caption;
use crate::palette::{Palette, px};
use crate::scale::Scale;
use maud::{Markup, html};
use overlock_world::stats::Interval;

/// One chart.
#[derive(Debug)]
pub(crate) struct Intervals<'a> {
    pub(crate) title: String,
    /// The meaning of the values: `of libc, above 1 is better`.
    pub(crate) unit: String,
    /// Whether 1 is the base of comparison.
    pub(crate) ratios: bool,
    pub(crate) rows: Vec<(&'a str, Interval)>,
    pub(crate) show: fn(f64) -> String,
}

const ROW: f64 = 26.0;

impl Intervals<'_> {
    pub(crate) fn caption(&self) -> Caption {
        let row = |(name, of): &(&str, Interval)| {
            let [median, low, high] = [of.median, of.low, of.high].map(self.show);
            format!("{name} {median} ({low} to {high})")
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        let description = format!("{}: {}.", self.unit, rows.join(", "));
        Caption { title: self.title.clone(), description }
    }

    pub(crate) fn draw(&self, width: f64, palette: &Palette) -> (f64, Markup) {
        let longest = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let left = (16.0 + 7.2 * longest as f64).clamp(70.0, 0.42 * width);
        let (right, top) = (width - 70.0, 24.0);
        let bottom = top + ROW * self.rows.len() as f64;
        let highest = self.rows.iter().map(|(_, of)| of.high).fold(0.0, f64::max);
        let x = Scale::linear(if self.ratios { highest.max(1.0) } else { highest }, left, right);
        let drawn = html! {
            text class="unit" x=(px(left)) y="12" { (self.unit) }
            @for tick in x.ticks(if width > 500.0 { 6.0 } else { 3.0 }) {
                path class="grid" d={ "M" (px(x.at(tick))) " " (px(top)) "V" (px(bottom)) } {}
                text x=(px(x.at(tick))) y=(px(bottom + 16.0)) text-anchor="middle" {
                    (crate::overcommit::trimmed_unit(&(self.show)(tick)))
                }
            }
            @if self.ratios {
                path class="reference" d={ "M" (px(x.at(1.0))) " " (px(top)) "V" (px(bottom)) } {}
            }
            @for (at, (name, of)) in self.rows.iter().enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                @let look = palette.look(name);
                g class={ "series " (look.class()) } {
                    title {
                        (name) ": " ((self.show)(of.median)) " (" ((self.show)(of.low)) " to "
                        ((self.show)(of.high)) ")"
                    }
                    text class="name" x=(px(left - 8.0)) y=(px(y + 4.0)) text-anchor="end" {
                        (name)
                    }
                    path class="range band" d={
                        "M" (px(x.at(of.low))) " " (px(y)) "H" (px(x.at(of.high))) } {}
                    (look.marker(x.at(of.median), y, 4.2))
                    text class="value" x=(px(right + 10.0)) y=(px(y + 4.0)) {
                        ((self.show)(of.median))
                    }
                }
            }
        };
        (bottom + 24.0, drawn)
    }
}
