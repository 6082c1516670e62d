// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every sub-command. The flags of each, and examples, stand by its verb.
//!
//! The help texts teach: they say what a flag is for and end in examples that run.

use crate::bench::BenchArgs;
use crate::doctor::DoctorArgs;
use crate::extras::{CompletionsArgs, ManPagesArgs};
use crate::process::{CompareArgs, RunArgs};
use crate::reference::ReferenceArgs;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;

/// Spin locks that survive a lost CPU: measure them, compare them, put them under any program.
#[derive(Debug, Parser)]
#[command(name = "overlock", version, subcommand_required = true)]
#[command(after_help = "What every counter, column and field means: overlock reference\n\
                  Exit codes: 0 fine, 1 a check failed, 2 could not run or write, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(Box<BenchArgs>),
    Compare(CompareArgs),
    Run(RunArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Trace(crate::trace::TraceArgs),
    Torture(crate::torture::TortureArgs),
    Report(crate::report::ReportArgs),
    Doctor(DoctorArgs),
    Reference(ReferenceArgs),
    #[command(hide = true)]
    Completions(CompletionsArgs),
    #[command(hide = true)]
    ManPages(ManPagesArgs),
    /// One run in the world of threads, in its own process.
    #[command(hide = true, name = "bench-child")]
    BenchChild {
        spec: String,
    },
    /// Simulated runs, in their own process.
    #[command(hide = true, name = "sim-child")]
    SimChild,
    #[command(flatten)]
    Old(Old),
}

/// Verbs of the release before: they say what they are called now.
#[derive(Debug, Subcommand)]
pub(crate) enum Old {
    #[command(hide = true)]
    Lab(Anything),
    #[command(hide = true)]
    Sim(Anything),
    #[command(hide = true)]
    Reproduce(Anything),
    #[command(hide = true)]
    Validate(Anything),
    #[command(hide = true)]
    Calibrate(Anything),
    #[command(hide = true)]
    Boot(Anything),
}

impl Old {
    /// Returns the old name and the new spelling.
    pub(crate) const fn spelling(&self) -> (&'static str, &'static str) {
        match self {
            Self::Lab(_) => ("lab", "overlock bench --in kvm (or --in parked)"),
            Self::Sim(_) => ("sim", "overlock bench --in sim:HOST"),
            Self::Reproduce(_) => ("reproduce", "overlock bench s1 s3 s5 s4-micro ... --in sim"),
            Self::Validate(_) => ("validate", "overlock bench X in both worlds, and report"),
            Self::Calibrate(_) => ("calibrate", "overlock doctor --calibrate FILE"),
            Self::Boot(_) => ("boot", "overlock bench --in tcg (or kvm-guest, xen, xen-pvh)"),
        }
    }
}

/// Whatever was typed.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Anything {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Those of `run` and `compare` need a shell to split them: `tests/cli/help.rs` runs them.
    #[test]
    fn every_example_can_be_parsed() {
        for command in Cli::command().get_subcommands().filter(|shown| !shown.is_hide_set()) {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").expect(name);
            let lines = examples.lines().take_while(|line| !line.is_empty());
            let typed = lines.filter_map(|line| line.split_once(&format!("overlock {name}")));
            let mut count = 0;
            for (_, args) in typed.filter(|_| !["run", "compare"].contains(&name)) {
                let args = args.split([';', '#', '>', '|']).next().unwrap_or_default(); // the shell's
                let words = ["overlock", name].into_iter().chain(args.split_whitespace());
                assert!(Cli::try_parse_from(words).is_ok(), "overlock {name}{args}");
                count += 1;
            }
            assert!(count >= 2 || ["run", "compare"].contains(&name), "{name}: {count} examples");
        }
    }
}
