// SPDX-License-Identifier: MIT OR Apache-2.0
//! How wide the terminal is, and text that keeps to it.
//!
//! `COLUMNS` comes first, because it is how a user says so; then what the terminal says. Into a
//! file or a pipe nothing is broken, so that programs find each row and each sentence in one line.

use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;
use terminal_size::{Width, terminal_size_of};

/// Nothing readable fits into less.
const NARROWEST: usize = 20;

/// The columns of the terminal that standard output is, if it is one.
pub(crate) fn stdout_width() -> Option<usize> {
    width_of(io::stdout())
}

/// The columns of the terminal that standard error is, if it is one.
pub(crate) fn stderr_width() -> Option<usize> {
    width_of(io::stderr())
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = told.or_else(|| terminal_size_of(stream).map(|(Width(width), _)| width.into()));
    width.filter(|width| *width > 0).map(|width: usize| width.max(NARROWEST))
}

/// Breaks sentences at spaces. What is indented stays as it is: rows of tables, which have their
/// own way, and commands to copy.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Cow<'_, str> {
    let Some(width) = width else { return text.into() };
    let options = textwrap::Options::new(width).subsequent_indent("  ").break_words(false);
    let wrap = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => textwrap::fill(line, &options),
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_and_rows_are_not() {
        let text = "the first sentence is long\n  a row that is longer than that\nshort";
        let broken = "the first sentence\n  is long\n  a row that is longer than that\nshort";
        assert_eq!(wrapped(text, Some(20)), broken);
        assert_eq!(wrapped(text, None), text);
    }
}
