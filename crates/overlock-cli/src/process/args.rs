//! The command lines of `run` and `compare`.

use crate::flags::{OutputArgs, seconds, seed, whole};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run an unmodified program under a chosen lock.
///
/// LD_PRELOAD replaces the mutexes, condition variables, read-write locks, spin locks and barriers
/// of pthread and C11 in the program with ours. The program keeps the terminal, its signals and its
/// exit code (128 + n if signal n ended it). When it ends, `run` prints the events of the locks to
/// standard error, where the program may also have written, or writes them to a file.
#[derive(Debug, Args)]
#[command(
    override_usage = "overlock run [LOCK | --lock LOCK] [--json] [--out FILE] PROGRAM [ARGS]..."
)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// hybrid, ticket, queued or test-and-set; libc preloads nothing, none replaces nothing. The
    /// first word after `run` can be the lock too
    #[arg(long, value_name = "LOCK", default_value = "hybrid")]
    pub(super) lock: Vec<String>,

    /// Print the counters as JSON, one line per process
    #[arg(long)]
    pub(super) json: bool,

    /// Write the counters as JSON Lines to a file, instead of printing them
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,

    /// The program and its arguments; `--` may stand before it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "PROGRAM")]
    pub(super) command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  seq 300000 > lines.txt
  overlock run sort --parallel=4 -o sorted.txt lines.txt
  overlock run ticket sort --parallel=4 -o sorted.txt lines.txt
  overlock run --lock hybrid --out counters.jsonl sort --parallel=4 -o sorted.txt lines.txt

What the counters mean: overlock reference
Exit codes: the program's own (128 + n if signal n ended it); 2 if it could not be run, or the counters could not be written.";

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
    pub(super) locks: Vec<String>,

    /// Rounds: how often the program is run under each lock; below 6 there can be no verdict
    #[arg(long, default_value_t = 9, value_parser = |of: &str| whole::<u16>(of, 1..=1000))]
    pub(super) runs: u16,

    /// Regular expression for the program's own figure: the first group of its last match is the
    /// number
    #[arg(long, value_name = "REGEX")]
    pub(super) metric: Option<String>,

    /// Prefer a higher figure, as with operations per second
    #[arg(long, requires = "metric")]
    pub(super) higher_is_better: bool,

    /// Check that standard output is the same under every lock
    #[arg(long)]
    pub(super) check_output: bool,

    /// Lines of standard output that this check ignores because they vary (times, say)
    #[arg(long, value_name = "REGEX", requires = "check_output")]
    pub(super) ignore: Option<String>,

    /// Accept an exit code that is not 0
    #[arg(long)]
    pub(super) any_exit_code: bool,

    /// Seconds after which a run counts as hung [default: 20 times the first run, at least 30]
    #[arg(long, value_name = "SECONDS", value_parser = |of: &str| seconds(of, 1e6))]
    pub(super) timeout: Option<f64>,

    /// Seed of the order in which the locks take turns
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// The program and its arguments; `--` may stand before it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "PROGRAM")]
    pub(super) command: Vec<OsString>,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  seq 300000 > lines.txt
  overlock compare --check-output sort --parallel=4 lines.txt
  overlock compare --metric 'copied, ([0-9.e-]+) s' \\
      dd if=/dev/zero of=/dev/null bs=64k count=4096
  overlock compare --locks libc,hybrid --runs 21 --out kept.jsonl sort --parallel=4 lines.txt

If the program crashes, hangs or prints something else under a lock, that is reported, and the
other locks go on. Ctrl-C ends the run; whole rounds are printed and kept.
What columns and fields mean: overlock reference
The rule of the recommendation, which `bench` follows too: overlock reference recommendation
Exit codes: 0 fine, 1 the program failed under some lock, 2 could not run or write, 130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_run_names_all_that_is_replaced() {
        let command = RunArgs::augment_args(clap::Command::new("run"));
        let about = command.get_long_about().unwrap().to_string();
        assert!(about.contains(&overlock_programs::Waits::replaceable()), "{about}");
    }
}
