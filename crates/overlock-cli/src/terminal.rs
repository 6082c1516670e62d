//! The width of the terminal, and text that fits into it.
//!
//! `COLUMNS` takes precedence, because the user set it; then comes the terminal's own width. Text
//! into a file or a pipe is never broken, so that programs find each row and each sentence on one
//! line.

use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;
use terminal_size::{Width, terminal_size_of};

/// Below this width nothing is readable.
const NARROWEST: usize = 20;

/// Returns the width of the terminal at standard output, if it is one. Tests of this crate compare
/// what would go into a file.
pub(crate) fn stdout_width() -> Option<usize> {
    if cfg!(test) { None } else { width_of(io::stdout()) }
}

pub(crate) fn width_of(stream: impl AsFd) -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = told.or_else(|| terminal_size_of(stream).map(|(Width(width), _)| width.into()));
    width.filter(|width| *width > 0).map(|width: usize| width.max(NARROWEST))
}

/// Breaks sentences at spaces. Indented lines stay as they are: rows of tables, which have their
/// own layout, and commands to copy.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Cow<'_, str> {
    let Some(width) = width else { return text.into() };
    let options = textwrap::Options::new(width).subsequent_indent("  ").break_words(false);
    let wrap = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => textwrap::fill(line, &options),
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n").into()
}

/// Breaks a sentence at spaces, with a text before its first line and one before the others.
pub(crate) fn filled(text: &str, first: &str, rest: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{first}{text}") };
    let options = textwrap::Options::new(width).initial_indent(first).subsequent_indent(rest);
    textwrap::fill(text, options.break_words(false))
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
