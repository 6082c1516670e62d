//! Intervals one below the other: ratios to something at 1, or figures of locks at one point.

use crate::page::figure::{Caption, Chart, columns};
use crate::page::label::{self, trimmed};
use crate::page::palette::{Palette, px};
use crate::page::scale::Scale;
use crate::stats::Interval;
use maud::{Markup, html};

#[derive(Debug)]
pub(crate) struct Intervals<'a> {
    pub(crate) title: String,
    /// The meaning of the values: `of libc, above 1 is better`.
    pub(crate) unit: String,
    /// Whether 1 is the base of comparison.
    pub(crate) ratios: bool,
    pub(crate) rows: Vec<(&'a str, Interval)>,
    pub(crate) show: fn(f64) -> String,
    pub(crate) palette: &'a Palette,
}

const ROW: f64 = 26.0;

impl Chart for Intervals<'_> {
    fn caption(&self) -> Caption {
        let row = |(name, of): &(&str, Interval)| {
            let [median, low, high] = [of.median, of.low, of.high].map(self.show);
            format!("{name} {median} ({low} to {high})")
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        let description = format!("{}: {}.", self.unit, rows.join(", "));
        Caption { title: self.title.clone(), description }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let longest = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let left = (16.0 + 7.2 * longest as f64).clamp(70.0, 0.42 * width);
        let unit = label::lines(&self.unit, width - 8.0);
        let widest = unit.iter().map(|line| label::width(line)).fold(0.0, f64::max);
        // Above the values, or as far to the left of them as it needs.
        let unit_left = left.min((width - widest).max(0.0));
        let (right, top) = (width - 70.0, 10.0 + 14.0 * unit.len() as f64);
        let bottom = top + ROW * self.rows.len() as f64;
        let highest = self.rows.iter().map(|(_, of)| of.high).fold(0.0, f64::max);
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
            @for (at, (name, of)) in self.rows.iter().enumerate() {
                @let y = top + ROW * (at as f64 + 0.5);
                @let look = self.palette.look(name);
                g class={ "series " (look.class()) } {
                    title {
                        (name) ": " ((self.show)(of.median)) " (" ((self.show)(of.low)) " to "
                        ((self.show)(of.high)) ")"
                    }
                    text class="name" x=(px(left - 8.0)) y=(px(y + 4.0)) text-anchor="end" {
                        (label::cut(name, left - 8.0))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::label::oracle::faults;
    use crate::page::sample::LONG;
    use crate::units::three;

    fn chart<'a>(palette: &'a Palette, rows: Vec<(&'a str, Interval)>) -> Intervals<'a> {
        let unit = "geometric mean over all points, by rounds; above 1 is better".into();
        Intervals { title: "ratios".into(), unit, ratios: true, rows, show: three, palette }
    }

    #[test]
    fn a_band_goes_from_low_to_high() {
        let palette = Palette::of(&[]);
        let of = Interval { median: 1.0, low: 0.5, high: 2.0 };
        let chart = chart(&palette, vec![("hybrid", of)]);
        assert!(chart.caption().description.ends_with("hybrid 1.00 (0.500 to 2.00)."));
        let drawn = chart.draw(720.0).1.into_string();
        // 0 to 2 are 70 to 650, and 1 is the base.
        for part in ["M215 37H650", r#"class="reference" d="M360 24V50""#] {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
    }

    #[test]
    fn labels_can_be_read() {
        let palette = Palette::of(&[]);
        let of = |median: f64| Interval { median, low: 0.9 * median, high: 1.1 * median };
        let rows = vec![(LONG, of(1.0)), ("hybrid", of(0.001)), ("ticket", of(123_456.0))];
        for width in [720.0, 340.0] {
            let (height, inside) = chart(&palette, rows.clone()).draw(width);
            assert_eq!(faults(&inside.into_string(), width, height), [""; 0]);
        }
    }
}
