// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock reference`: the page of all counters, columns and fields, or the rows of one name.

use crate::args::ReferenceArgs;
use crate::{Outcome, output};
use anyhow::{Result, bail};

/// The page.
const PAGE: &str = include_str!("../reference.md");

/// Runs the sub-command.
pub(crate) fn main(args: &ReferenceArgs) -> Result<Outcome> {
    match &args.word {
        None => output::print(PAGE.trim_end())?,
        Some(word) => match about(word) {
            found if found.is_empty() => {
                bail!("the reference has no '{word}'; for the whole page run: overlock reference")
            }
            found => output::print(&found)?,
        },
    }
    Ok(Outcome::Fine)
}

/// Returns the table rows that explain `word`, each below its heading.
fn about(word: &str) -> String {
    let mut found = Vec::new();
    let mut heading = None;
    for line in PAGE.lines() {
        if line.starts_with('#') {
            heading = Some(line);
            continue;
        }
        // The first cell holds the names.
        let Some(names) = line.strip_prefix('|').and_then(|row| row.split('|').next()) else {
            continue;
        };
        if names.split('`').skip(1).step_by(2).any(|name| name == word) {
            found.extend(heading.take());
            found.push(line);
        }
    }
    found.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_below_its_heading() {
        let found = about("pv_wait_head");
        assert!(found.starts_with('#') && found.contains("\n| `pv_wait_head` |"), "{found}");
        assert_eq!(about("no-such-word"), "");
    }

    #[test]
    fn every_event_has_its_row() {
        for event in overlock::counters::Event::ALL {
            assert!(about(event.name()).contains(event.name()), "{event:?}");
        }
    }
}
