//! What was found, beside what would be better.

use crate::terminal;
use overlock_results::row::Symptom;

/// Lays the finding out in two columns, the first as wide as the `longest` name; or one below
/// the other where the second would be narrow.
pub(super) fn laid_out(finding: &Symptom, longest: usize, width: Option<usize>) -> String {
    const NARROW: usize = 40;
    let Symptom { name, found, advice } = finding;
    let mark = if advice.is_some() { "!" } else { " " };
    let first = format!("{mark} {name:longest$}  ");
    let (mut text, indent) = match width {
        Some(width) if width < first.len() + NARROW => (format!("{mark} {name}\n"), 4),
        _ => (String::new(), first.len()),
    };
    let blank = " ".repeat(indent);
    let first = if text.is_empty() { &first } else { &blank };
    text += &terminal::filled(found, first, &blank, width);
    if let Some(advice) = advice {
        let (first, rest) = (format!("{blank}-> "), format!("{blank}   "));
        text += "\n";
        text += &terminal::filled(advice, &first, &rest, width);
    }
    text
}
