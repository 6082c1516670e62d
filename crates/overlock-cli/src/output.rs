// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where results go: tables for people, JSON Lines or CSV for programs, and a file as they come.
//!
//! These are the only places that write to standard output and standard error.

use crate::args::OutputArgs;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};

/// What standard output is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Tables,
    Json,
    Csv,
}

/// The destination of all results of a command.
#[derive(Debug)]
pub(crate) struct Sink {
    format: Format,
    file: Option<File>,
}

impl Sink {
    /// Opens the result file, if one is asked for, before anything is measured.
    pub(crate) fn open(args: &OutputArgs) -> Result<Self> {
        let format = match args {
            OutputArgs { json: true, .. } => Format::Json,
            OutputArgs { csv: true, .. } => Format::Csv,
            _ => Format::Tables,
        };
        let file = args
            .out
            .as_ref()
            .map(|path| {
                File::create(path).with_context(|| format!("can't write {}", path.display()))
            })
            .transpose()?;
        Ok(Sink { format, file })
    }

    /// Writes a record to the file, and to standard output if that speaks JSON.
    pub(crate) fn record(&mut self, record: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(record)?;
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}").context("can't write the result file")?;
        }
        if self.format == Format::Json { print(&line) } else { Ok(()) }
    }

    /// Prints text for people, unless standard output is for programs.
    pub(crate) fn people(&self, text: &str) -> Result<()> {
        if self.format == Format::Tables { print(text) } else { Ok(()) }
    }

    /// Prints a line of CSV if that was asked for.
    pub(crate) fn csv(&self, fields: &[String]) -> Result<()> {
        if self.format == Format::Csv { print(&fields.join(",")) } else { Ok(()) }
    }
}

/// Prints a line to standard output.
pub(crate) fn print(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}

/// Prints a line to standard error. If even that fails there is nobody left to tell.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Says whether the reader of standard output went away, which is its right.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
