// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that all charts share: the picture with its title and description for screen readers,
//! the legend, the grid.

use crate::palette::{Palette, px};
use crate::scale::Scale;
use maud::{Markup, PreEscaped, html};

/// The style of charts, on a page or alone.
pub(crate) const CHART_STYLE: &str = include_str!("chart.css");

/// The title and description of a chart.
#[derive(Debug)]
pub(crate) struct Caption {
    pub(crate) title: String,
    /// The same in words, for screen readers.
    pub(crate) description: String,
}

/// Makes an SVG of this size around its content.
pub(crate) fn svg(caption: &Caption, width: f64, height: f64, inside: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"
            viewBox={ "0 0 " (px(width)) " " (px(height)) } width=(px(width)) height=(px(height)) {
            title { (caption.title) }
            desc { (caption.description) }
            (inside)
        }
    }
}

/// The widths in which a chart is drawn, for wide and for narrow screens; paper counts as wide.
const WIDE: f64 = 720.0;
const NARROW: f64 = 340.0;

/// Draws a chart in both widths.
pub(crate) fn both(caption: &Caption, draw: impl Fn(f64) -> (f64, Markup)) -> Markup {
    let drawn = |width: f64| {
        let (height, inside) = draw(width);
        svg(caption, width, height, &inside)
    };
    html! {
        figure {
            figcaption { (caption.title) }
            div class="wide" { (drawn(WIDE)) }
            div class="narrow" { (drawn(NARROW)) }
        }
    }
}

/// Draws a small chart that has one width everywhere.
pub(crate) fn small(caption: &Caption, draw: impl Fn(f64) -> (f64, Markup)) -> Markup {
    let (height, inside) = draw(NARROW);
    html! {
        figure class="small" {
            figcaption { (caption.title) }
            (svg(caption, NARROW, height, &inside))
        }
    }
}

/// Names the series and their looks.
pub(crate) fn legend<'a>(series: impl Iterator<Item = &'a str>, palette: &Palette) -> Markup {
    html! {
        ul class="legend" aria-hidden="true" {
            @for name in series {
                @let look = palette.look(name);
                li {
                    svg width="26" height="12" viewBox="0 0 26 12" class=(look.class()) {
                        path class="line" d="M1 6H25" {}
                        (look.marker(13.0, 6.0, 3.6))
                    }
                    (name)
                }
            }
        }
    }
}

/// Draws lines across the chart, each with its value to the left.
pub(crate) fn rows(
    y: &Scale,
    ticks: &[f64],
    [left, right]: [f64; 2],
    show: impl Fn(f64) -> String,
) -> Markup {
    html! {
        @for tick in ticks {
            @let at = y.at(*tick);
            path class="grid" d={ "M" (px(left)) " " (px(at)) "H" (px(right)) } {}
            text x=(px(left - 6.0)) y=(px(at + 4.0)) text-anchor="end" { (show(*tick)) }
        }
    }
}

/// Moves labels apart so that they do not overlap, as little as possible, from `top` to `bottom`.
pub(crate) fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut heights = wanted.to_vec();
    let mut least = top;
    for at in &order {
        heights[*at] = heights[*at].max(least);
        least = heights[*at] + gap;
    }
    let mut most = bottom;
    for at in order.iter().rev() {
        heights[*at] = heights[*at].min(most);
        most = heights[*at] - gap;
    }
    heights
}

/// Marks text as HTML: only for constants of this program.
pub(crate) fn own(text: &'static str) -> PreEscaped<&'static str> {
    PreEscaped(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_their_place() {
        assert_eq!(apart(&[50.0, 10.0], 12.0, 0.0, 100.0), [50.0, 10.0]);
        assert_eq!(apart(&[50.0, 51.0, 49.0], 12.0, 0.0, 100.0), [61.0, 73.0, 49.0]);
        assert_eq!(apart(&[99.0, 98.0], 12.0, 0.0, 100.0), [100.0, 88.0]);
    }
}
