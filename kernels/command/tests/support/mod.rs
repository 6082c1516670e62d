// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real binary, run as a user would run it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

/// Reports that a test, or a part of it, was skipped.
pub(crate) fn skip(what: &str) {
    writeln!(io::stderr(), "skipped: {what}").expect("stderr takes a line");
}

/// The output of a command, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
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

    /// Returns the JSON records of one kind on standard output.
    #[track_caller]
    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str::<Value>(line).expect(line);
        self.stdout.lines().map(parse).filter(|record| record["kind"] == kind).collect()
    }

    /// Asserts that `overlock reference` explains every field and counter of the records.
    #[track_caller]
    pub(crate) fn is_explained(&self) {
        let page = said(&["reference"]).stdout;
        let rows = page.lines().filter_map(|line| line.strip_prefix('|'));
        let cells = rows.filter_map(|row| row.split('|').next());
        let known: BTreeSet<&str> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let mut found = BTreeSet::new();
        for line in self.stdout.lines() {
            names(&serde_json::from_str(line).expect(line), &mut found);
        }
        let unknown: Vec<_> = found.iter().filter(|name| !known.contains(&***name)).collect();
        assert!(!found.is_empty() && unknown.is_empty(), "the reference lacks {unknown:?}");
    }
}

/// Collects all names of fields, at any depth.
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

/// Makes the command without starting it.
pub(crate) fn overlock(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overlock-kernels"));
    command.args(args).env_remove("COLUMNS");
    // SAFETY: `signal` is safe to call between fork and exec.
    unsafe { command.pre_exec(heed_signals) };
    command
}

/// Sets signals as a terminal does, however the tests were started: a background job of a script
/// starts with SIGINT ignored, and the command keeps ignored signals ignored.
fn heed_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

/// Runs the command to its end.
pub(crate) fn said(args: &[&str]) -> Said {
    overlock(args).output().unwrap().into()
}

/// Sends Ctrl-C's signal.
pub(crate) fn interrupt(pid: u32) {
    let kill = format!("kill -INT {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}
