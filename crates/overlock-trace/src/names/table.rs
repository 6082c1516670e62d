//! The tables of names, which are `table.txt`.

use super::Kind;
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What a thread sleeps for, in words.
    pub(super) words: &'static str,
    /// A stack for which this line decides, the innermost function first.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests demand it"))]
    pub(super) example: &'static str,
}

static TABLES: LazyLock<HashMap<&str, Vec<Line>>> = LazyLock::new(|| {
    let mut tables: HashMap<&str, Vec<Line>> = HashMap::new();
    let mut table = "";
    for line in include_str!("table.txt").lines().map(str::trim_end) {
        if let Some(name) = line.strip_prefix("== ") {
            table = name;
        } else if !line.is_empty() && !line.starts_with("# ") {
            let mut fields = line.split(" | ");
            let mut next = || fields.next().unwrap_or_default();
            let (name, kind) = (next(), Kind::named(next()));
            // Only the kernel's functions and calls, and files, have words.
            let words = if ["kernel", "calls", "files"].contains(&table) { next() } else { "" };
            tables.entry(table).or_default().push(Line { name, kind, words, example: next() });
        }
    }
    tables
});

pub(super) fn lines(table: &str) -> &'static [Line] {
    TABLES.get(table).map_or(&[], Vec::as_slice)
}
