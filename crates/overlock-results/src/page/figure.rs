//! The frame of every chart: a caption, a description for screen readers, and the sizes in which it
//! is drawn.

use crate::page::label;
use crate::page::palette::{Palette, px};
use crate::page::scale::Scale;
use maud::{Markup, PreEscaped, html};

pub(crate) const CHART_STYLE: &str = include_str!("chart.css");

pub(crate) trait Chart {
    fn caption(&self) -> Caption;

    /// Draws it `width` pixels wide, and returns its height, too.
    fn draw(&self, width: f64) -> (f64, Markup);
}

#[derive(Debug)]
pub(crate) struct Caption {
    pub(crate) title: String,
    /// The same in words, for screen readers.
    pub(crate) description: String,
}

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

/// Says in words what a chart shows: the meaning of the values, and then each of its rows.
pub(crate) fn told(values: &str, rows: &[String]) -> String {
    let (first, rest) = values.split_at(1);
    format!("{}{rest}. {}.", first.to_uppercase(), rows.join("; "))
}

/// The widths in which a chart is drawn, for wide and for narrow screens; paper counts as wide.
pub(crate) const WIDE: f64 = 720.0;
pub(crate) const NARROW: f64 = 340.0;

fn drawn(chart: &dyn Chart, width: f64) -> Markup {
    let (height, inside) = chart.draw(width);
    svg(&chart.caption(), width, height, &inside)
}

pub(crate) fn both(chart: &dyn Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.caption().title) }
            div class="wide" { (drawn(chart, WIDE)) }
            div class="narrow" { (drawn(chart, NARROW)) }
        }
    }
}

pub(crate) fn small(chart: &dyn Chart) -> Markup {
    html! {
        figure class="small" {
            figcaption { (chart.caption().title) }
            (drawn(chart, NARROW))
        }
    }
}

/// Draws a chart as a picture of its own, which contains the style sheet and its title.
pub(crate) fn alone(chart: &dyn Chart, width: f64) -> Markup {
    /// Room for a line of the title above the chart; on a page the title is text.
    const LINE: f64 = 17.0;
    let caption = chart.caption();
    let (height, inside) = chart.draw(width);
    let title = label::lines(&caption.title, width - 16.0);
    let heading = 13.0 + LINE * title.len() as f64;
    let styled = html! {
        style { (own(CHART_STYLE)) }
        @for (at, line) in title.iter().enumerate() {
            text class="name heading" x="8" y=(px(17.0 + LINE * at as f64)) { (line) }
        }
        g transform={ "translate(0 " (px(heading)) ")" } { (inside) }
    };
    svg(&caption, width, height + heading, &styled)
}

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
    html! { g class="axis-y" data-log=[y.log.then_some("")] {
        @for tick in ticks {
            @let at = y.at(*tick);
            path class="grid" d={ "M" (px(left)) " " (px(at)) "H" (px(right)) } {}
            text x=(px(left - 6.0)) y=(px(at + 4.0)) text-anchor="end" { (show(*tick)) }
        }
    } }
}

/// Draws lines down the chart from `top` to `bottom`, and the values that have room below.
pub(crate) fn columns(
    x: &Scale,
    about: f64,
    [top, bottom]: [f64; 2],
    show: impl Fn(f64) -> String,
) -> Markup {
    let ticks = x.ticks(about);
    let labels = label::spaced(ticks.iter().map(|tick| (x.at(*tick), show(*tick))));
    html! { g class="axis-x" {
        @for tick in &ticks {
            path class="grid" d={ "M" (px(x.at(*tick))) " " (px(top)) "V" (px(bottom)) } {}
        }
        @for (at, text) in &labels {
            text x=(px(*at)) y=(px(bottom + 16.0)) text-anchor="middle" { (text) }
        }
    } }
}

/// Draws places along the lower edge, and what they are.
pub(crate) fn across(
    ticks: impl IntoIterator<Item = (f64, String)>,
    bottom: f64,
    unit: &str,
    middle: f64,
) -> Markup {
    html! {
        g class="axis-x" { @for (at, text) in ticks {
            path class="tick" d={ "M" (px(at)) " " (px(bottom)) "v5" } {}
            text x=(px(at)) y=(px(bottom + 19.0)) text-anchor="middle" { (text) }
        } }
        text class="unit" x=(px(middle)) y=(px(bottom + 38.0)) text-anchor="middle" { (unit) }
    }
}

/// Marks text as HTML: only for constants of this program.
pub(crate) fn own(text: &'static str) -> PreEscaped<&'static str> {
    PreEscaped(text)
}
