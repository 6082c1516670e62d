// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `overlock` command: from "which lock suits this machine?" to a program that runs on it.
//!
//! This file only parses, dispatches, and turns the outcome into an exit code. Tables and records
//! go to standard output; progress, warnings and errors go to standard error, so that `overlock ...
//! --json | jq` works. The exception is `run`, whose standard output is the program's: its counters
//! go to standard error, or to a file.

mod args;
mod bench;
mod calibrate;
mod doctor;
mod experiments;
mod extras;
mod interrupt;
mod machine;
mod output;
mod process;
mod progress;
mod recommend;
mod record;
mod reference;
mod report;
mod shuffle;
mod sys;
mod table;
mod terminal;
mod torture;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
mod usage;
mod warnings;
mod worlds;

use args::{Cli, Command};
use clap::Parser;
pub(crate) use overlock_world::{stats, units};
use std::process::ExitCode;

/// The outcome of a command that could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    CheckFailed,
    Interrupted,
    /// The exit code of the program that the command ran.
    Code(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        ExitCode::from(match outcome {
            Outcome::Fine => 0,
            Outcome::CheckFailed => 1,
            Outcome::Interrupted => 130,
            Outcome::Code(code) => code,
        })
    }
}

fn main() -> ExitCode {
    process::start::obey_as_starter();
    let args: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(error, &args),
    };
    let done = match cli.command {
        Command::Bench(args) => bench::main(&args),
        Command::Run(args) => process::run::main(&args),
        Command::Compare(args) => process::compare::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Trace(args) => trace::main(&args),
        Command::Torture(args) => torture::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Reference(args) => reference::main(&args),
        Command::Completions(args) => extras::completions(&args),
        Command::ManPages(args) => extras::man_pages(&args),
        Command::SimChild => worlds::obey().map(|()| Outcome::Fine),
        Command::BenchChild { spec } => {
            overlock_bench::obey(&spec).map(|never| match never {}).map_err(Into::into)
        }
        Command::Old(old) => {
            let (name, spelling) = old.spelling();
            Err(anyhow::anyhow!(
                "`overlock {name}` is now `{spelling}`; see `overlock bench --help`"
            ))
        }
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("overlock: {error:#}"));
            ExitCode::from(2)
        }
    }
}
