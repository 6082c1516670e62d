//! Intervals one below the other: ratios to something at 1, figures of locks at one point, or
//! shares of what threads did.

use crate::page::figure::{Caption, Chart, columns, told};
use crate::page::group::{Cell, Setup};
use crate::page::label::{self, trimmed};
use crate::page::palette::{Palette, px};
use crate::page::scale::Scale;
use crate::stats::{Interval, Spread};
use maud::{Markup, html};

#[derive(Debug)]
pub(crate) struct Intervals<'a> {
    pub(crate) title: String,
    /// The meaning of the values: `of libc, above 1 is better`.
    pub(crate) unit: String,
    /// Whether 1 is the base of comparison.
    pub(crate) ratios: bool,
    /// Each with its name, and what else is to be said of it; else that is its median.
    pub(crate) rows: Vec<(&'a str, Interval, Option<String>)>,
    pub(crate) show: fn(f64) -> String,
    pub(crate) palette: &'a Palette,
}

const ROW: f64 = 26.0;

/// How the work is shared: from the vCPU that did the least to the one that did the most, over the
/// average, and Jain's index. Nothing for a lone vCPU, or where the records have no shares.
pub(crate) fn fairness<'a>(
    setup: &'a Setup<'_>,
    cpus: u32,
    palette: &'a Palette,
) -> Option<Intervals<'a>> {
    let over = |cell: &Cell<'_>, of: fn(&Spread) -> f64| {
        let share = |spread: &Spread| of(spread) / spread.avg.max(f64::MIN_POSITIVE);
        cell.median(|point| point.ops_per_cpu.as_ref().map(share))
    };
    let row = |cell: &'a Cell<'_>| {
        let jain = format!("Jain {:.2}", cell.median(|point| point.jain)?);
        let (low, high) = (over(cell, |of| of.min as f64)?, over(cell, |of| of.max as f64)?);
        Some((&*cell.series, Interval { median: 1.0, low, high }, Some(jain)))
    };
    let sharer = setup.at(cpus).next()?.points.first()?.1.takers().names().0;
    let rows: Vec<_> = setup.at(cpus).filter(|_| cpus != 1).filter_map(row).collect();
    (!rows.is_empty()).then(|| Intervals {
        title: format!("Fairness, {}", setup.place(cpus)),
        unit: format!("least to most of the {sharer}s, over average"),
        ratios: true,
        rows,
        show: |share| format!("{share:.2}"),
        palette,
    })
}

impl Intervals<'_> {
    fn text(&self, (name, of, more): &(&str, Interval, Option<String>)) -> String {
        let [median, low, high] = [of.median, of.low, of.high].map(self.show);
        match more {
            Some(more) => format!("{name}: {more}, {low} to {high}"),
            None => format!("{name}: {median} ({low} to {high})"),
        }
    }
}

impl Chart for Intervals<'_> {
    fn caption(&self) -> Caption {
        let rows: Vec<String> = self.rows.iter().map(|row| self.text(row)).collect();
        Caption { title: self.title.clone(), description: told(&self.unit, &rows) }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let longest = self.rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let left = (16.0 + 7.2 * longest as f64).clamp(70.0, 0.42 * width);
        let unit = label::lines(&self.unit, width - 8.0);
        let widest = unit.iter().map(|line| label::width(line)).fold(0.0, f64::max);
        // Above the values, or as far to the left of them as it needs.
        let unit_left = left.min((width - widest).max(0.0));
        let (right, top) = (width - 78.0, 10.0 + 14.0 * unit.len() as f64);
        let bottom = top + ROW * self.rows.len() as f64;
        let highest = self.rows.iter().map(|(_, of, _)| of.high).fold(0.0, f64::max);
        let x = Scale::linear(if self.ratios { highest.max(1.0) } else { highest }, left, right);
        let about = if width > 500.0 { 6.0 } else { 3.0 };
        let drawn = html! {
            @for (at, line) in unit.iter().enumerate() {
                text class="unit" x=(px(unit_left)) y=(px(12.0 + 14.0 * at as f64)) { (line) }
            }
            (columns(&x, about, [top, bottom], |value| trimmed(&(self.show)(value))))
            @if self.ratios {
                path class="reference" d={ "M" (px(x.at(1.0))) " " (px(top)) "V" (px(bottom)) } {}
            }
            @for (at, row @ (name, of, more)) in self.rows.iter().enumerate() {
                @let y = px(top + ROW * (at as f64 + 0.5));
                @let baseline = px(top + ROW * (at as f64 + 0.5) + 4.0);
                @let look = self.palette.look(name);
                g class={ "series " (look.class()) } data-on="x" {
                    title { (self.text(row)) }
                    text class="name" x=(px(left - 8.0)) y=(baseline) text-anchor="end" {
                        (label::cut(name, left - 8.0))
                    }
                    path class={ "range " (if more.is_some() { "shares" } else { "band" }) } d={
                        "M" (px(x.at(of.low))) " " (y) "H" (px(x.at(of.high).max(x.at(of.low) + 2.0))) } {}
                    @if more.is_none() {
                        (look.marker(x.at(of.median), top + ROW * (at as f64 + 0.5), 4.2))
                    }
                    text class="value" x=(px(right + 10.0)) y=(baseline) {
                        (more.clone().unwrap_or_else(|| (self.show)(of.median)))
                    }
                }
            }
        };
        (bottom + 24.0, drawn)
    }
}
