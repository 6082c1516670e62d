//! Where results go: tables for people, JSON Lines for programs, and a file that grows with
//! each record.
//!
//! Only this file writes to standard output and standard error.

use crate::machine::observe;
use crate::outcome::Outcome;
use crate::terminal;
use anyhow::{Context, Result, bail};
use overlock_results::row::{Head, Machine, Row};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

#[derive(Debug, Default)]
pub(crate) struct Sink {
    json: bool,
    /// Standard output belongs to a program, so standard error is used instead.
    is_on_stderr: bool,
    file: Option<ResultFile>,
}

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

    pub(crate) fn end(self) -> Result<()> {
        match self.broken {
            // As text: a broken pipe here does not mean that standard output's reader left.
            Some(error) => bail!("the result file is incomplete: {error}"),
            None => Ok(()),
        }
    }
}

impl Sink {
    pub(crate) fn open(json: bool, out: Option<&Path>) -> Result<Self> {
        let file = out.map(ResultFile::create).transpose()?;
        Ok(Sink { json, is_on_stderr: false, file })
    }

    /// Leaves standard output to the program that runs, and uses standard error.
    pub(crate) fn on_stderr(self) -> Self {
        Sink { is_on_stderr: true, ..self }
    }

    pub(crate) fn begin(&mut self, seed: Option<u64>) -> Result<Machine> {
        let machine = observe();
        self.record(&Row::Run(Head {
            version: Some(env!("CARGO_PKG_VERSION").into()),
            commit: Some(env!("OVERLOCK_COMMIT").into()),
            command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            seed,
            machine: machine.clone(),
        }))?;
        Ok(machine)
    }

    /// Writes a record, most often a row, to the file, and to standard output if that is for
    /// programs.
    pub(crate) fn record(&mut self, record: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(record)?;
        self.file.as_mut().map_or(Ok(()), |file| file.write(&line))?;
        match (self.json, self.is_on_stderr) {
            (false, _) => Ok(()),
            (true, false) => print(&line),
            (true, true) => print_to(io::stderr().lock(), &line),
        }
    }

    /// Ends the command with `outcome`, or with an error if the result file is incomplete.
    pub(crate) fn end(self, outcome: Outcome) -> Result<Outcome> {
        self.file.map_or(Ok(()), ResultFile::end).map(|()| outcome)
    }

    /// Prints text for people, unless standard output is for programs.
    pub(crate) fn people(&self, text: &str) -> Result<()> {
        if self.json {
            return Ok(());
        }
        if self.is_on_stderr {
            complain(text);
            return Ok(());
        }
        print(&terminal::wrapped(text, terminal::stdout_width()))
    }
}

pub(crate) fn print(line: &str) -> Result<()> {
    print_to(io::stdout().lock(), line)
}

fn print_to(mut stream: impl Write, line: &str) -> Result<()> {
    writeln!(stream, "{line}").and_then(|()| stream.flush()).context("can't write the results")
}

pub(crate) fn complain(line: &str) {
    let width = terminal::width_of(io::stderr());
    let _ = writeln!(io::stderr(), "{}", terminal::wrapped(line, width));
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
