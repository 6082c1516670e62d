// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every sub-command, flag and example.
//!
//! The help texts teach: they say what a flag is for and end in examples that run.

use crate::bench::BenchArgs;
use crate::flags::OutputArgs;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

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

/// Run an unmodified program under a chosen lock.
///
/// LD_PRELOAD replaces the program's pthread mutexes, read-write locks, spin locks and condition
/// variables with ours. The program keeps the terminal, its signals and its exit code (128 + n if
/// signal n ended it). When it ends, `run` prints the events of the locks to standard error, where
/// the program may also have written, or writes them to a file.
#[derive(Debug, Args)]
#[command(
    override_usage = "overlock run [LOCK | --lock LOCK] [--json] [--out FILE] PROGRAM [ARGS]..."
)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// hybrid, ticket, queued or test-and-set; libc preloads nothing, none replaces nothing. The
    /// first word after `run` can be the lock too
    #[arg(long, value_name = "LOCK", default_value = "hybrid")]
    pub(crate) lock: Vec<String>,

    /// Print the counters as JSON, one line per process
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the counters as JSON Lines to a file, instead of printing them
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// The program and its arguments; `--` may stand before it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  overlock run sort --parallel=4 /etc/passwd
  overlock run ticket tar cf /dev/null /etc/passwd
  overlock run --lock hybrid --out counters.jsonl make -j8 --version

What the counters mean: overlock reference";

/// Run a program under several locks in turns and say which one suits it.
///
/// The first run checks that the program works, the second that it waits for locks at all. Rounds
/// follow: each runs the program once under every lock, in shuffled order, so that a noisy moment
/// affects all alike, and once under `none`, the preload library that replaces nothing, to show
/// what preloading costs. The compared figure is wall time, or the program's own figure if --metric
/// says how to read it. Ratios are formed inside a round; the table ranks locks by the median of
/// theirs. The recommendation weighs that, and the longest stall at a mutex: ten times as long
/// weighs as much as a fifth of the figure. There is none if the difference could be noise; on a
/// tie, a lock that lets no thread wait for ever is preferred.
#[derive(Debug, Args)]
#[command(override_usage = "overlock compare [OPTIONS] PROGRAM [ARGS]...")]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Locks to compare; libc is the unmodified program, and the baseline
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    #[arg(default_value = "libc,hybrid,ticket,queued,test-and-set")]
    pub(crate) locks: Vec<String>,

    /// Rounds: how often the program is run under each lock; below 6 there can be no verdict
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,

    /// Rounds to run first without counting them
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) warmup: u16,

    /// Regular expression for the program's own figure: the first group of its last match is the
    /// number
    #[arg(long, value_name = "REGEX")]
    pub(crate) metric: Option<String>,

    /// Prefer a higher figure, as with operations per second
    #[arg(long, requires = "metric")]
    pub(crate) higher_is_better: bool,

    /// Check that standard output is the same under every lock
    #[arg(long)]
    pub(crate) check_output: bool,

    /// Lines of standard output that this check ignores because they vary (times, say)
    #[arg(long, value_name = "REGEX", requires = "check_output")]
    pub(crate) ignore: Option<String>,

    /// Accept an exit code that is not 0
    #[arg(long)]
    pub(crate) any_exit_code: bool,

    /// Seconds after which a run counts as hung [default: 20 times the first run, at least 30]
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    pub(crate) timeout: Option<f64>,

    /// Seed of the order in which the locks take turns
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The program and its arguments; `--` may stand before it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  overlock compare xz -T4 -k -c /etc/passwd
  overlock compare --check-output sort --parallel=4 /etc/passwd
  overlock compare --metric 'copied, ([0-9.e-]+) s' \\
      dd if=/dev/zero of=/dev/null bs=64k count=4096
  overlock compare --locks libc,hybrid --runs 21 --out kept.jsonl make -j8 --version

If the program crashes, hangs or prints something else under a lock, that is reported, and the
other locks go on. Ctrl-C ends the run; whole rounds are printed and kept.
What columns and fields mean: overlock reference
The rule of the recommendation, which `bench` follows too: overlock reference recommendation
Exit codes: 0 fine, 1 the program failed under some lock, 2 could not run or write, 130 interrupted.";

/// Show what this machine offers for running and measuring locks, and what would be better.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Measure what cache lines, exits, switches and wake-ups cost here, and write a host's file
    /// for `bench --in sim:FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Option<PathBuf>,

    /// Print one JSON record instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  overlock doctor
  overlock doctor --calibrate here.toml
  overlock doctor --json";

/// Explain counters, columns and JSON fields: print the page, the rows of a name, or a section.
#[derive(Debug, Args)]
#[command(after_help = REFERENCE_EXAMPLES)]
pub(crate) struct ReferenceArgs {
    /// The name of a counter, column, field, lock or variable, or a word of a section's title
    pub(crate) word: Option<String>,
}

const REFERENCE_EXAMPLES: &str = "\
Examples:
  overlock reference
  overlock reference pv_wait_head
  overlock reference recommendation";

/// Print a script that completes this command's flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  overlock completions bash > completions.bash
  overlock completions zsh > _overlock";

/// Write manual pages into a folder.
#[derive(Debug, Args)]
pub(crate) struct ManPagesArgs {
    pub(crate) folder: PathBuf,
}

/// Parses a time limit.
fn limit(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.01..=1e6).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is outside 0.01 to 1000000 seconds"))
    }
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
