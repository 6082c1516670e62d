//! What a command said, and how it ended: for the tests of each program that is this command.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write as _};
use std::process::Output;

/// Reports that a test, or a part of it, was skipped.
pub(crate) fn skip(what: &str) {
    writeln!(io::stderr(), "skipped: {what}").expect("stderr takes a line");
}

/// The output of a command, and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl fmt::Debug for Said {
    /// Begins with what a failure is about, a panic above all: long output may be cut where it is
    /// shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let first = panic.unwrap_or(lines.len().saturating_sub(3));
        let short =
            lines[first..].iter().take(3).map(|line| &line[..line.floor_char_boundary(500)]);
        let short: Vec<&str> = short.collect();
        writeln!(f, "exit code {:?}: {}", self.code, short.join("\n"))?;
        write!(f, "standard output:\n{}\nstandard error:\n{}", self.stdout, self.stderr)
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// Asserts the exit code, and that standard error contains a part of a sentence.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, sentence: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(sentence), "'{sentence}' is not in {self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }

    #[track_caller]
    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str::<Value>(line).expect(line);
        self.stdout.lines().map(parse).filter(|record| record["kind"] == kind).collect()
    }

    /// Asserts that the reference's page explains all names in the records, among them these.
    #[track_caller]
    pub(crate) fn is_explained(&self, page: &str, among: &[&str]) {
        let mut found = BTreeSet::new();
        for line in self.stdout.lines() {
            let record: Value = serde_json::from_str(line).expect(line);
            found.insert(record["kind"].as_str().expect(line).to_owned());
            names(&record, &mut found);
        }
        for name in among {
            assert!(found.contains(*name), "there is no {name}: {self:?}");
        }
        let page = explained(page);
        let unknown: Vec<_> = found.iter().filter(|name| !page.contains(&***name)).collect();
        assert!(unknown.is_empty(), "the reference does not explain {unknown:?}");
    }
}

/// Collects all names of fields, at any depth. A decision's name is its outcome and its reason.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.extend(name.split(':').map(str::to_owned));
            names(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

/// Returns the names in the first cells of the tables on the reference's page.
pub(crate) fn explained(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|'));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Sets signals as a terminal does, however the tests were started: a background job of a script
/// starts with SIGINT and SIGQUIT ignored, and the command keeps ignored signals ignored.
pub(crate) fn heed_signals() -> io::Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}
