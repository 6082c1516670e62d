//! Intervals of time, and bars of them. Those that are too short to be seen are drawn together.

use maud::{Markup, html};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    pub(crate) fn length(self) -> f64 {
        self.to - self.from
    }

    pub(crate) fn and(self, other: Span) -> Option<Span> {
        let both = Span { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from < both.to).then_some(both)
    }
}

/// Returns the parts of `span` that are in `others`, which are in order and apart.
pub(crate) fn common(span: Span, others: &[Span]) -> impl Iterator<Item = Span> + '_ {
    let first = others.partition_point(|other| other.to <= span.from);
    others[first..].iter().map_while(move |other| span.and(*other))
}

/// The place of a bar in its lane: its upper edge and its height, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) top: f64,
    pub(crate) height: f64,
}

pub(crate) fn path(spans: impl IntoIterator<Item = Span>, Bar { top, height }: Bar) -> String {
    let rectangle = |span: Span| {
        let (from, length) = (span.from, span.length());
        format!("M{from} {top}h{length}v{height}h-{length}z")
    };
    spans.into_iter().map(rectangle).collect()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) width: f64,
    pub(crate) count: usize,
}

/// How many shades there are: the fourth stands for a column that is more than 3/4 covered.
const SHADES: u8 = 4;

impl Columns {
    fn shares(self, spans: &[Span]) -> Vec<f64> {
        let mut shares = vec![0.0; self.count];
        for span in spans {
            let (first, last) = (span.from / self.width, span.to / self.width);
            let end = (last as usize).min(self.count - 1);
            let start = (first as usize).min(end);
            for (at, share) in (start..).zip(&mut shares[start..=end]) {
                let column = Span { from: at as f64, to: at as f64 + 1.0 };
                *share += column.and(Span { from: first, to: last }).map_or(0.0, Span::length);
            }
        }
        shares
    }

    /// Draws short intervals of several classes, which exclude each other, in one lane: a column
    /// has the class that covers most of it, and the shade of all. With `marked`, each column that
    /// is touched at all has the darkest shade.
    pub(crate) fn shades(
        self,
        layers: &[(String, Vec<Span>)],
        Bar { top, height }: Bar,
        marked: bool,
    ) -> Markup {
        let shares: Vec<Vec<f64>> = layers.iter().map(|(_, spans)| self.shares(spans)).collect();
        let look = |at: usize| -> Option<(usize, u8)> {
            let of = |layer: &usize| shares[*layer][at];
            let most = (0..layers.len()).max_by(|a, b| of(a).total_cmp(&of(b)))?;
            let all: f64 = (0..layers.len()).map(|layer| of(&layer)).sum();
            let shade = (all * f64::from(SHADES)).ceil().min(f64::from(SHADES)) as u8;
            (all > 0.0).then_some((most, if marked { SHADES } else { shade.max(1) }))
        };
        let mut paths = vec![String::new(); layers.len() * usize::from(SHADES)];
        let mut ends = vec![0; paths.len()];
        let mut at = 0;
        while at < self.count {
            let Some((layer, shade)) = look(at) else {
                at += 1;
                continue;
            };
            let from = at;
            while at < self.count && look(at) == Some((layer, shade)) {
                at += 1;
            }
            let path = layer * usize::from(SHADES) + usize::from(shade) - 1;
            paths[path].push_str(&format!("m{} 0h{}", from - ends[path], at - from));
            ends[path] = at;
        }
        let middle = top + height / 2.0;
        let drawn = paths.iter().enumerate().filter(|(_, path)| !path.is_empty());
        html! {
            @for (number, path) in drawn {
                @let (layer, shade) = (number / usize::from(SHADES), number % usize::from(SHADES));
                path class={ "shade " (layers[layer].0) " s" (shade + 1) } d={ "M0 " (middle) (path) }
                    transform={ "scale(" (self.width) " 1)" } {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[(f64, f64)]) -> Vec<Span> {
        all.iter().map(|&(from, to)| Span { from, to }).collect()
    }

    #[test]
    fn common_parts_are_found_in_order() {
        let others = spans(&[(0.0, 10.0), (20.0, 30.0), (40.0, 50.0)]);
        let parts: Vec<Span> = common(Span { from: 5.0, to: 45.0 }, &others).collect();
        assert_eq!(parts, spans(&[(5.0, 10.0), (20.0, 30.0), (40.0, 45.0)]));
        assert_eq!(common(Span { from: 10.0, to: 20.0 }, &others).count(), 0);
    }

    #[test]
    fn a_bar_is_a_rectangle() {
        let bar = Bar { top: 2.0, height: 12.0 };
        assert_eq!(path(spans(&[(3.0, 8.0), (9.0, 9.5)]), bar), "M3 2h5v12h-5zM9 2h0.5v12h-0.5z");
    }

    #[test]
    fn short_intervals_share_their_columns() {
        let columns = Columns { width: 10.0, count: 4 };
        let shares = columns.shares(&spans(&[(0.0, 5.0), (6.0, 8.0), (18.0, 24.0), (39.0, 41.0)]));
        assert_eq!(percent(&shares), [70, 20, 40, 10]);
    }

    fn percent(shares: &[f64]) -> Vec<i32> {
        shares.iter().map(|share| (100.0 * share).round() as i32).collect()
    }

    #[test]
    fn a_column_has_the_look_of_what_covers_most_of_it() {
        let columns = Columns { width: 10.0, count: 5 };
        let bar = Bar { top: 2.0, height: 12.0 };
        let a = spans(&[(0.0, 6.0), (10.0, 16.0), (30.0, 31.0)]);
        let b = spans(&[(6.0, 9.0), (16.0, 19.0), (42.0, 50.0)]);
        let layers = [("a".to_owned(), a), ("b".to_owned(), b)];
        let drawn = columns.shades(&layers, bar, false).into_string();
        for part in [
            r#"class="shade a s4" d="M0 8m0 0h2""#,
            r#"class="shade a s1" d="M0 8m3 0h1""#,
            r#"class="shade b s4" d="M0 8m4 0h1""#,
        ] {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
        assert_eq!(drawn.matches("<path").count(), 3);
        let marked = columns.shades(&layers, bar, true).into_string();
        assert!(marked.contains(r#"class="shade a s4" d="M0 8m0 0h2m1 0h1""#), "{marked}");
    }
}
