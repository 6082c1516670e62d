// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all charts have in common: the picture with its title and description for those who do not
//! see it, the legend, the grid.

use super::palette::{Palette, px};
use super::scale::Scale;
use maud::{Markup, PreEscaped, html};

/// How charts look, wherever they are.
pub(super) const CHART_STYLE: &str = include_str!("chart.css");

/// What a chart says of itself.
#[derive(Debug)]
pub(super) struct Caption {
    pub(super) title: String,
    /// The same in words, for a reader who hears the page.
    pub(super) description: String,
}

/// An SVG of this size, around what is in it.
pub(super) fn svg(caption: &Caption, width: f64, height: f64, inside: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"
            viewBox={ "0 0 " (px(width)) " " (px(height)) } width=(px(width)) height=(px(height)) {
            title { (caption.title) }
            desc { (caption.description) }
            (inside)
        }
    }
}

/// The widths that a chart is drawn in, for wide and for narrow screens; paper is wide.
const WIDE: f64 = 720.0;
const NARROW: f64 = 340.0;

/// A chart in both widths.
pub(super) fn both(caption: &Caption, draw: impl Fn(f64) -> (f64, Markup)) -> Markup {
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

/// A small chart that has one width everywhere.
pub(super) fn small(caption: &Caption, draw: impl Fn(f64) -> (f64, Markup)) -> Markup {
    let (height, inside) = draw(NARROW);
    html! {
        figure class="small" {
            figcaption { (caption.title) }
            (svg(caption, NARROW, height, &inside))
        }
    }
}

/// Names what the looks of the series mean.
pub(super) fn legend<'a>(series: impl Iterator<Item = &'a str>, palette: &Palette) -> Markup {
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

/// Lines across the chart, each with its value to the left.
pub(super) fn rows(
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

/// Heights at which texts do not lie on each other, as near to where they should be as that
/// allows, from `top` to `bottom`.
pub(super) fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
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

/// Text that is HTML already: of this program's own making only.
pub(super) fn own(text: &'static str) -> PreEscaped<&'static str> {
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
