// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where results go: tables for people, JSON Lines for programs, and a file that grows with
//! each record.
//!
//! Only this file writes to standard output and standard error.

use crate::flags::OutputArgs;
use crate::outcome::Outcome;
use crate::terminal;
use anyhow::{Context, Result, bail};
use overlock_world::row::{Head, Row};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What standard output is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Tables,
    Json,
}

/// The destination of all results of a command.
#[derive(Debug)]
pub(crate) struct Sink {
    format: Format,
    file: Option<ResultFile>,
}

/// The file that keeps records as they are written.
#[derive(Debug)]
pub(crate) struct ResultFile {
    file: File,
    /// The length of all whole records in bytes.
    length: u64,
    /// The error of the first record that could not be written. Later records are not tried, and
    /// the command ends in an error.
    broken: Option<io::Error>,
}

impl ResultFile {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path);
        let file = file.with_context(|| format!("can't write {}", path.display()))?;
        Ok(ResultFile { file, length: 0, broken: None })
    }

    /// Writes a line. If the first line can't be written, that is an error at once, before anything
    /// is measured. Later there are results to show, so a failure is reported and remembered.
    pub(crate) fn write(&mut self, line: &str) -> Result<()> {
        if self.broken.is_some() {
            return Ok(());
        }
        match self.file.write_all(format!("{line}\n").as_bytes()) {
            Ok(()) => self.length += line.len() as u64 + 1,
            Err(error) if self.length == 0 => bail!("can't write the result file: {error}"),
            Err(error) => {
                complain(&format!(
                    "overlock: can't write the result file: {error}; continuing without it"
                ));
                // Leave no half record, where the file can be truncated.
                let _ = self.file.set_len(self.length);
                self.broken = Some(error);
            }
        }
        Ok(())
    }

    /// Returns an error if the file is incomplete.
    pub(crate) fn end(self) -> Result<()> {
        match self.broken {
            // As text: a broken pipe here does not mean that standard output's reader left.
            Some(error) => bail!("the result file is incomplete: {error}"),
            None => Ok(()),
        }
    }
}

impl Sink {
    /// Opens the result file, if one was requested, before anything is measured.
    pub(crate) fn open(args: &OutputArgs) -> Result<Self> {
        let format = match args {
            OutputArgs { json: true, .. } => Format::Json,
            _ => Format::Tables,
        };
        let file = args.out.as_deref().map(ResultFile::create).transpose()?;
        Ok(Sink { format, file })
    }

    /// Prints tables, and keeps nothing.
    pub(crate) fn tables() -> Self {
        Sink { format: Format::Tables, file: None }
    }

    /// Writes a record to the file, and to standard output if its format is JSON.
    pub(crate) fn record(&mut self, record: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(record)?;
        self.file.as_mut().map_or(Ok(()), |file| file.write(&line))?;
        if self.format == Format::Json { print(&line) } else { Ok(()) }
    }

    /// Writes a row.
    pub(crate) fn row(&mut self, row: &Row) -> Result<()> {
        self.record(row)
    }

    /// Ends the command with `outcome`, or with an error if the result file is incomplete.
    pub(crate) fn end(self, outcome: Outcome) -> Result<Outcome> {
        self.file.map_or(Ok(()), ResultFile::end).map(|()| outcome)
    }

    /// Prints text for people, unless standard output is for programs.
    pub(crate) fn people(&self, text: &str) -> Result<()> {
        if self.format != Format::Tables {
            return Ok(());
        }
        print(&terminal::wrapped(text, terminal::stdout_width()))
    }
}

/// Returns the first row of a file, without the seed and the machine.
pub(crate) fn head() -> Head {
    Head {
        version: Some(env!("CARGO_PKG_VERSION").into()),
        commit: Some(env!("OVERLOCK_COMMIT").into()),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        ..Head::default()
    }
}

/// Prints a line to standard output.
pub(crate) fn print(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}

/// Prints a line to standard error. If even that fails, it can't be reported.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::wrapped(line, terminal::stderr_width()));
}

/// Returns whether the reader of standard output closed it, which it may do.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
