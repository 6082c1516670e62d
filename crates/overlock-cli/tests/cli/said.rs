//! What a command said, and how it ended: for the tests of each program that is this command.

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
    pub(crate) fn records(&self, kind: &str) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect(line);
        self.stdout.lines().map(parse).filter(|record| record["kind"] == kind).collect()
    }
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
