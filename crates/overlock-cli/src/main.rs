// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `overlock` command: from "which lock suits this machine?" to a program that runs on it.
//!
//! This file only parses, dispatches, and turns the outcome into an exit code. Tables and records
//! go to standard output; progress, warnings and errors go to standard error, so that `overlock ...
//! --json | jq` works. The exception is `run`, whose standard output is the program's: its counters
//! go to standard error, or to a file.

mod args;
mod bench;
#[cfg(target_os = "linux")]
mod boot;
mod bounds;
mod doctor;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod experiments;
mod extras;
mod interrupt;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod lab;
mod machine;
mod output;
mod process;
mod progress;
mod recommend;
mod record;
mod reference;
mod report;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod reproduce;
mod shuffle;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod sim;
mod sys;
mod table;
mod terminal;
mod torture;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
mod usage;
mod warnings;

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
        Command::Lab(args) => lab::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Sim(args) => sim::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Reproduce(args) => reproduce::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Validate(args) => sim::validate::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Calibrate(args) => sim::calibrate::main(&args),
        #[cfg(target_os = "linux")]
        Command::Boot(args) => boot::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Trace(args) => trace::main(&args),
        Command::Torture(args) => torture::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Reference(args) => reference::main(&args),
        Command::Completions(args) => extras::completions(&args),
        Command::ManPages(args) => extras::man_pages(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::SimChild => sim::pool::obey().map(|()| Outcome::Fine),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::CountChild { locks } => {
            reproduce::instructions::obey(&locks).map(|()| Outcome::Fine)
        }
        Command::BenchChild { spec } => match overlock_bench::obey(&spec) {
            Ok(never) => match never {},
            Err(error) => Err(error.into()),
        },
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
