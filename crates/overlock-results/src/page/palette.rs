//! The look of a series: colour and marker by the algorithm, dashes by the build. So a lock looks
//! the same in every chart of a page, and nothing depends on colour alone.

use crate::page::group::Section;
use crate::stats::unique;
use maud::{Markup, html};

const COLOURS: usize = 8;

/// The usual locks, each with its own colour.
const KNOWN: [&str; 8] =
    ["hybrid", "ticket", "queued", "test-and-set", "std", "parking-lot", "pthread", "libc"];

#[derive(Debug)]
pub(crate) struct Palette {
    /// What has a colour, in the order of colours.
    keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    colour: usize,
    marker: usize,
    /// A class of the style sheet: `solid`, `native`, `off`.
    dash: &'static str,
}

impl Palette {
    pub(crate) fn of(sections: &[Section<'_>]) -> Self {
        let series = sections.iter().flat_map(Section::cells).map(|cell| cell.series.as_str());
        let used = unique(series.map(key));
        // Unused names give their colours to others.
        let mut others = used.iter().filter(|key| !KNOWN.contains(&key.as_str())).cloned();
        let mut keys: Vec<String> = Vec::new();
        for known in KNOWN.map(str::to_owned) {
            let other = if used.contains(&known) { None } else { others.next() };
            keys.push(other.unwrap_or(known));
        }
        keys.extend(others);
        Palette { keys }
    }

    pub(crate) fn look(&self, series: &str) -> Look {
        let key = key(series);
        let at = self.keys.iter().position(|known| *known == key).unwrap_or(self.keys.len());
        let lock = series.split(',').next().unwrap_or_default();
        let dash = match lock {
            lock if lock.starts_with("native-") && family(lock) != lock => "native",
            lock if lock.ends_with("-off") => "off",
            _ => "solid",
        };
        Look { colour: at % COLOURS, marker: (at + at / COLOURS) % 4, dash }
    }
}

fn family(lock: &str) -> &str {
    let family = lock.strip_prefix("native-").unwrap_or(lock);
    family.strip_suffix("-off").unwrap_or(family)
}

/// Returns the part of a series' name that decides its colour: all but the build of its lock.
fn key(series: &str) -> String {
    let (lock, policy) = series.split_at(series.find(", ").unwrap_or(series.len()));
    format!("{}{policy}", family(lock))
}

impl Look {
    pub(crate) fn class(self) -> String {
        format!("c{} {}", self.colour, self.dash)
    }

    /// Draws a marker of about this half width, hollow for locks that are native or off.
    pub(crate) fn marker(self, x: f64, y: f64, r: f64) -> Markup {
        let class = if self.dash == "solid" { "mark" } else { "mark hollow" };
        let point = |dx: f64, dy: f64| format!("{:.1} {:.1}", x + dx * r, y + dy * r);
        let path = match self.marker {
            0 => {
                return html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(r)) {} };
            }
            1 => [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)].to_vec(),
            2 => [(0.0, -1.25), (1.15, 0.85), (-1.15, 0.85)].to_vec(),
            _ => [(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)].to_vec(),
        };
        let corners: Vec<String> = path.into_iter().map(|(dx, dy)| point(dx, dy)).collect();
        html! { path class=(class) d={ "M" (corners.join("L")) "Z" } {} }
    }
}

pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::sample::{only, point, read};

    #[test]
    fn the_build_of_a_lock_changes_its_dashes_and_not_its_colour() {
        let all = ["hybrid", "native-hybrid", "hybrid-off", "ticket, report", "ticket-off, report"];
        let results = read(&all.map(|of| point(of, 2, 1.0)));
        let looks = all.map(|of| Palette::of(&[only(&results)]).look(of).class());
        assert_eq!(looks, ["c0 solid", "c0 native", "c0 off", "c1 solid", "c1 off"]);
    }

    #[test]
    fn other_names_have_the_colours_of_unused_ones() {
        let names: Vec<String> = (0..9).map(|n| format!("lock-{n}")).collect();
        let rows: Vec<String> = names.iter().map(|name| point(name, 2, 1.0)).collect();
        let palette = Palette::of(&[only(&read(&rows))]);
        let looks: Vec<Look> = names.iter().map(|name| palette.look(name)).collect();
        assert_eq!(looks[0].class(), "c0 solid");
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "{look:?} is there twice");
        }
    }

    #[test]
    fn lengths_have_one_digit_at_most() {
        assert_eq!([3.0, 2.25, -0.04].map(px), ["3", "2.2", "-0"]);
    }
}
