//! Reading a TOML file: every error is reported with file, line and expectation.

use std::fmt::Display;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use overlock_results::Error;

/// Rust's names for types, and the words that users understand.
const TYPES: [(&str, &str); 5] = [
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number, 0 to 4294967295"),
    ("expected u16", "expected a whole number, 0 to 65535"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected f64", "expected a number"),
];

#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> Document<'a> {
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text }
    }

    /// The name of what the file describes: the file's own name, without folder and extension.
    pub fn name(&self) -> &'a str {
        Path::new(self.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(self.file)
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        toml::from_str(self.text).map_err(|error| {
            let mut what = error.message().trim_end().to_owned();
            for (from, to) in TYPES {
                what = what.replace(from, to);
            }
            self.at(error.span().map(|span| span.start), what)
        })
    }

    /// Refuses the value of a key, such as `factors.cpus.2`. The error points to the first of
    /// `keys` that the file contains, or else to the innermost table on the way to the first key.
    pub fn refuse(&self, keys: &[&str], what: impl Display) -> Error {
        let whole = keys.iter().find_map(|key| self.find(key).ok());
        let nearest = || keys.first().and_then(|key| self.find(key).err().flatten());
        self.at(whole.or_else(nearest), what)
    }

    /// Where the value of `key` begins. The error is where the innermost table on the way to it
    /// begins, if there is one.
    fn find(&self, key: &str) -> Result<usize, Option<usize>> {
        let root = DeTable::parse(self.text).map_err(|_| None)?;
        let (mut here, mut table, mut list) = (None, Some(root.get_ref()), None);
        for part in key.split('.') {
            let next = match (table, list) {
                (Some(table), _) => table.get(part),
                (None, Some(list)) => {
                    let list: &[toml::Spanned<DeValue<'_>>] = list;
                    part.parse().ok().and_then(|at: usize| list.get(at))
                }
                (None, None) => None,
            };
            let value = next.ok_or(here)?;
            here = Some(value.span().start);
            table = value.get_ref().as_table();
            list = value.get_ref().as_array().map(|list| &list[..]);
        }
        here.ok_or(None)
    }

    fn at(&self, offset: Option<usize>, what: impl Display) -> Error {
        let before = offset.and_then(|offset| self.text.get(..offset)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        Error(format!("{}:{line}: {what}", self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const TEXT: &str = "a = 1\n[b]\nc = [7,\n 8,\n 9]\n[[d]]\ne = 1\n[[d]]\ne = -2\n";

    fn line(key: &str) -> String {
        Document::new("x/y.toml", TEXT).refuse(&[key], "no").to_string()
    }

    #[test]
    fn values_are_found_by_their_keys_and_else_their_table_is() {
        for (key, expected) in [
            ("a", 1),
            ("b.c", 3),
            ("b.c.2", 5),
            ("d.1.e", 9),
            ("d.0.e", 7),
            ("b.nothing", 2),
            ("b.c.3", 3),
            ("nothing", 1),
        ] {
            assert_eq!(line(key), format!("x/y.toml:{expected}: no"), "{key}");
        }
        let document = Document::new("x/y.toml", TEXT);
        assert_eq!(document.refuse(&["b.f", "d.1.e"], "no").to_string(), "x/y.toml:9: no");
        assert_eq!(document.name(), "y");
    }

    #[test]
    fn what_is_no_toml_or_of_another_type_is_told_with_its_line() {
        for (text, expected) in [
            ("a = 1\nb =", "f:2: "),
            ("a = 1\nb = -1", "f:2: invalid value: integer `-1`, expected a whole number, 0 or"),
            ("a = 1\n\nb = 'x'", "f:3: invalid type: string \"x\", expected a whole number"),
        ] {
            let read = Document::new("f", text).read::<BTreeMap<String, u64>>();
            let error = read.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
