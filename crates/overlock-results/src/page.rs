//! Results as one page: rows become a self-contained HTML file of tables and SVG charts, or one
//! chart as an SVG picture.
//!
//! ```text
//! lines ─► rows ─► group ─► charts, tables ─► page
//! ```
//!
//! A page measures and judges nothing, and invents no number: if a record does not hold a figure,
//! the page does not show it. Records can come from anywhere, so all text goes through `maud`,
//! which escapes it. The document `docs/report.md` has the rules.

mod figure;
mod group;
mod label;
mod lines;
mod names;
mod others;
mod palette;
mod picture;
mod points;
mod ratios;
mod read;
#[cfg(test)]
mod sample;
mod scale;
mod span;
mod table;
mod timeline;
mod whole;
mod words;

pub use picture::Drawing;
pub use read::{Recording, Results, files, rows};

use crate::Error;

pub fn page(results: &Results, title: Option<&str>) -> String {
    whole::page(results, &group::sections(&results.runs), title).into_string()
}

/// Draws the first chart of this kind that the results have, as an SVG picture.
pub fn picture(kind: Drawing, results: &Results) -> Result<String, Error> {
    let sections = group::sections(&results.runs);
    picture::picture(kind, results, &sections).ok_or_else(|| Error(kind.missing().into()))
}
