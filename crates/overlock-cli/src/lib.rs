//! The `overlock` command: from "which lock suits this machine?" to a program that runs on it.
//!
//! This file only parses, dispatches, and turns the outcome into an exit code. Tables and records
//! go to standard output; progress, warnings and errors go to standard error, so that `overlock ...
//! --json | jq` works. The exception is `run`, whose standard output is the program's: its counters
//! go to standard error, or to a file.

mod added;
mod args;
mod bench;
mod doctor;
mod experiments;
mod extras;
mod flags;
mod interrupt;
mod machine;
mod outcome;
mod output;
mod process;
mod progress;
mod reference;
mod report;
mod rounds;
mod shard;
mod table;
mod terminal;
mod torture;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
mod warnings;
mod worlds;

pub use added::Added;
use args::{Cli, Command};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser};
use outcome::Outcome;
pub(crate) use overlock_results::{stats, units};
use std::ffi::OsString;
use std::process::ExitCode;
pub use worlds::{Note, Options};

/// Does what the command line says, with the worlds and experiments that are `added`.
pub fn main(added: &Added) -> ExitCode {
    overlock_programs::obey_as_starter();
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    if let Err(error) = added::leave_verb(&verb.to_string_lossy()) {
        output::complain(&format!("overlock: {error:#}"));
        return ExitCode::from(2);
    }
    let cli = match Cli::try_parse_from(lock_first(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => return explain(error),
    };
    let done = match cli.command {
        Command::Bench(args) => bench::main(&args, added),
        Command::Run(args) => process::run::main(&args),
        Command::Compare(args) => process::compare::main(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Trace(args) => trace::main(&args),
        Command::Torture(args) => torture::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Doctor(args) => doctor::main(&args, added),
        Command::Reference(args) => reference::main(&args),
        Command::Completions(args) => extras::completions(&args, Cli::command()),
        Command::ManPages(args) => extras::man_pages(&args, Cli::command()),
        Command::BenchNeighbour => overlock_bench::threads::compute(),
        Command::SimChild => worlds::obey(added.more).map(|()| Outcome::Fine),
        Command::BenchChild { spec } => {
            overlock_bench::threads::obey(&spec).map(|never| match never {}).map_err(Into::into)
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

/// Makes `run LOCK PROGRAM...` what it is short for: `run --lock LOCK PROGRAM...`.
fn lock_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_lock =
        |word: &OsString| word.to_str().is_some_and(|w| overlock_programs::known(w).is_ok());
    if args.get(1).is_some_and(|verb| verb == "run") && args.get(2).is_some_and(is_lock) {
        args.insert(2, "--lock".into());
    }
    args
}

/// Prints what is wrong with the command line, or what the user asked for (`--help`). Suggests only
/// verbs that `--help` shows.
fn explain(mut error: clap::Error) -> ExitCode {
    let kind = ContextKind::SuggestedSubcommand;
    if let Some(ContextValue::Strings(names)) = error.remove(kind) {
        let cli = Cli::command();
        let is_shown = |name: &String| cli.find_subcommand(name).is_some_and(|c| !c.is_hide_set());
        let shown: Vec<_> = names.into_iter().filter(is_shown).collect();
        if !shown.is_empty() {
            error.insert(kind, ContextValue::Strings(shown));
        }
    }
    let is_help = !error.use_stderr();
    match error.print() {
        Err(failed) if is_help && failed.kind() != std::io::ErrorKind::BrokenPipe => {
            output::complain(&format!("overlock: can't write to standard output: {failed}"));
            ExitCode::from(2)
        }
        _ => ExitCode::from(if is_help { 0 } else { 2 }),
    }
}
