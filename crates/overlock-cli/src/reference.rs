//! `overlock reference`: the page of all counters, columns and fields, or the rows of one name and
//! the sections about it.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Result, bail};
use clap::Args;

/// The page. Its tables of columns are made from the columns themselves: `cargo xtask reference`.
const PAGE: &str = include_str!("../reference.md");

/// The lines of the page, without the marks of what is made.
fn lines() -> impl Iterator<Item = &'static str> {
    PAGE.trim_end().lines().filter(|line| !line.starts_with("<!--"))
}

/// Explain counters, columns and JSON fields: print the page, the rows of a name, or a section.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReferenceArgs {
    /// The name of a counter, column, field, lock or variable, or a word of a section's title
    word: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  overlock reference
  overlock reference pv_wait_head
  overlock reference recommendation";

pub(crate) fn main(args: &ReferenceArgs) -> Result<Outcome> {
    match &args.word {
        None => output::print(&lines().collect::<Vec<_>>().join("\n"))?,
        Some(word) => {
            let mut found = vec![about(word), sections(word)];
            found.retain(|part| !part.is_empty());
            if found.is_empty() {
                bail!("the reference has no '{word}'; for the whole page run: overlock reference");
            }
            output::print(&found.join("\n\n"))?;
        }
    }
    Ok(Outcome::Fine)
}

fn about(word: &str) -> String {
    let mut found = Vec::new();
    let mut heading = None;
    for line in lines() {
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

/// Returns the sections whose titles contain `word`, unless that says nothing.
fn sections(word: &str) -> String {
    if ["a", "and", "of", "the"].contains(&word) {
        return String::new();
    }
    let is_word = |other: &str| other.trim_matches(['`', ',', '(', ')']).eq_ignore_ascii_case(word);
    let mut found = Vec::new();
    let mut inside = false;
    for line in lines() {
        if line.starts_with('#') {
            inside = line.split(' ').any(is_word);
        }
        if inside {
            found.push(line);
        }
    }
    found.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_results::columns::{self, COLUMNS};

    /// Makes the tables of the page anew, each between its marks.
    fn made(page: &str) -> String {
        let mut made = String::new();
        let mut rest = page;
        while let Some((before, after)) = rest.split_once("<!-- columns: ") {
            let (section, after) = after.split_once(" -->\n").expect("a section's name");
            let (_, after) = after.split_once("<!-- end -->").expect("the end of a table");
            made +=
                &format!("{before}<!-- columns: {section} -->\n| column | meaning |\n|---|---|\n");
            made += &columns::explained(section);
            let all = COLUMNS.iter().filter(|of| columns::section(of) == section);
            // The ends of intervals are explained together.
            for column in all.filter(|of| of.heading() == of.name) {
                made += &format!("| `{}` | {} |\n", column.name, column.about);
            }
            made += "<!-- end -->";
            rest = after;
        }
        made + rest
    }

    /// `cargo xtask reference` writes the page.
    #[test]
    fn the_page_is_made_from_the_columns() {
        let made = made(PAGE);
        if std::env::var_os("OVERLOCK_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reference.md");
            return std::fs::write(path, made).expect("the page is writable");
        }
        for section in ["all", "threads", "summary", "vcpus", "kernels"] {
            assert!(PAGE.contains(&format!("<!-- columns: {section} -->")), "{section}");
        }
        assert!(made == PAGE, "a column has changed: run `cargo xtask reference`");
        assert!(about("held").contains("held by a running thread"));
    }

    #[test]
    fn a_word_of_a_title_finds_its_section() {
        let found = sections("Recommendation");
        assert!(found.starts_with("## The rule of a recommendation\n"), "{found}");
        assert!(found.contains("less than 2 %") && !found.contains("\n## "), "{found}");
        assert_eq!(sections("no-such-word") + &sections("the"), "");
    }

    #[test]
    fn the_rule_on_the_page_has_the_constants_of_the_code() {
        use overlock_results::judge::recommend::{NEAR_TIE, SHORT_STALL_NS};
        let rule = sections("recommendation");
        assert!(rule.contains(&format!("less than {:.0} %", (NEAR_TIE - 1.0) * 100.0)), "{rule}");
        assert!(rule.contains(&format!("at least {:.0} ms", SHORT_STALL_NS / 1e6)), "{rule}");
    }

    #[test]
    fn every_event_has_its_row() {
        for event in overlock::counters::Event::ALL {
            assert!(about(event.name()).contains(event.name()), "{event:?}");
        }
    }
}
