// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod fairness;
mod figure;
mod group;
mod others;
mod overcommit;
mod page;
mod palette;
mod picture;
mod ratios;
mod read;
mod record;
mod scale;
mod table;
mod timeline;
mod waits;
mod words;

pub use picture::Kind;
pub use read::{Results, Run, files};

/// Makes the page.
#[must_use]
pub fn page(results: &Results, title: Option<&str>) -> String {
    page::page(results, &group::sections(&results.runs), title).into_string()
}

/// Draws the first chart of this kind that the results have, as an SVG picture.
///
/// # Errors
/// If the results have no such chart; the error says what it needs.
pub fn picture(kind: Kind, results: &Results) -> anyhow::Result<String> {
    picture::picture(kind, results, &group::sections(&results.runs))
}
