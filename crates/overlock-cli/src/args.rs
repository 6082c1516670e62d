// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: every sub-command, flag and example.
//!
//! The help texts teach: they say what a flag is for and end in examples that run.

use crate::bench::Phase;
pub(crate) use crate::stats::unique;
use crate::units::Nanos;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use overlock_bench::Lengths;
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
    Bench(BenchArgs),
    Run(RunArgs),
    Compare(CompareArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Lab(crate::lab::LabArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Sim(crate::sim::SimArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Reproduce(crate::reproduce::ReproduceArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Validate(crate::sim::validate::ValidateArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Calibrate(crate::sim::calibrate::CalibrateArgs),
    #[cfg(target_os = "linux")]
    Boot(crate::boot::BootArgs),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Trace(crate::trace::TraceArgs),
    Torture(crate::torture::TortureArgs),
    Report(crate::report::ReportArgs),
    Doctor(DoctorArgs),
    Reference(ReferenceArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    ManPages(ManPagesArgs),
    /// One run of `bench`, in its own process.
    #[command(hide = true, name = "bench-child")]
    BenchChild {
        spec: String,
    },
    /// Runs of `sim` and `reproduce`, in their own process.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[command(hide = true, name = "sim-child")]
    SimChild,
    /// Counts instructions for `reproduce`, in a process of its own.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[command(hide = true, name = "count-child")]
    CountChild {
        locks: Vec<String>,
    },
}

/// Measure locks against std, parking_lot and pthread on this machine.
///
/// A point is a number of threads, and the mean lengths of their critical sections and of the
/// pauses between them: the combinations of --threads, --cs and --ncs, or random ones. At each
/// point the locks take turns, run by run in shuffled order, so that a noisy moment of the machine
/// affects all of them alike. Ratios are taken inside one round of turns. Tables show medians over
/// the rounds.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Locks to measure: names, or `main`, `all`, `ours`, `peers`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...", default_value = "main")]
    pub(crate) locks: Vec<String>,

    /// Numbers of threads
    #[arg(long, visible_alias = "cpus", value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) threads: Vec<u16>,

    /// Mean lengths of the critical section (0, 100ns, 1us, ...)
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(crate) cs: Vec<Nanos>,

    /// Mean lengths of the pause between two critical sections
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(crate) ncs: Vec<Nanos>,

    /// Which points to measure if none of the lists above is given
    #[arg(long, value_enum, default_value_t = Grid::Quick)]
    pub(crate) grid: Grid,

    /// How lengths are spread around those means [default: exp; with --random all four]
    #[arg(long, value_parser = spreads(), value_delimiter = ',', value_name = "SPREAD,...")]
    pub(crate) lengths: Vec<Lengths>,

    /// Draw this many points at random instead: 1 to 64 threads, 50 ns to 50 us or nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["threads", "cs", "ncs", "grid"])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) random: Option<u16>,

    /// Also draw points with several locks, changing lengths, or one thread that holds longer
    #[arg(long, requires = "random")]
    pub(crate) wide: bool,

    /// Use several locks; threads take the k-th 1/k times as often as the first (Zipf's law)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) locks_count: Option<u32>,

    /// Use other means in the second half of each run: critical sections and pauses
    #[arg(long, value_name = "CS/NCS")]
    pub(crate) phase: Option<Phase>,

    /// Make the critical sections of the first thread this many times as long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) uneven: Option<u32>,

    /// Length of each run in seconds
    #[arg(long, value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    /// Rounds: how often each lock is run at each point
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: Option<u16>,

    /// Seed of the points, the lengths and the order of the locks [default: today's, printed]
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Show where each lock's time went: held, handed over, free though wanted, wanted by no thread
    #[arg(long)]
    pub(crate) explain: bool,

    /// Count the events of our locks (`pv_wait_node`, ...) for the records of --json and --out
    #[arg(long)]
    pub(crate) counters: bool,

    /// Check the bounds that Overlock promises and list each point that misses one; exit 1 if any
    #[arg(long)]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Reads the name of a spread; help shows what each is.
fn spreads() -> impl TypedValueParser<Value = Lengths> {
    let named = Lengths::ALL.map(|one| PossibleValue::new(one.name()).help(one.describe()));
    PossibleValuesParser::new(named).map(|name| {
        let known = Lengths::ALL.into_iter().find(|one| one.name() == name);
        known.expect("no other name is possible")
    })
}

impl BenchArgs {
    /// Returns the requested spreads, or `default`.
    pub(crate) fn lengths_or(&self, default: &[Lengths]) -> Vec<Lengths> {
        if self.lengths.is_empty() { default.to_vec() } else { self.lengths.clone() }
    }
}

/// Run an unmodified program under a chosen lock.
///
/// LD_PRELOAD replaces the program's pthread mutexes, spin locks and condition variables with ours.
/// The program keeps the terminal, its signals and its exit code (128 + n if signal n ended it).
/// When it ends, `run` prints the events of the locks to standard error, where the program may also
/// have written, or writes them to a file.
#[derive(Debug, Args)]
#[command(
    override_usage = "overlock run [LOCK | --lock LOCK] [--json] [--out FILE] -- PROGRAM [ARGS]..."
)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// hybrid, ticket, queued or test-and-set; libc preloads nothing, none replaces nothing
    /// [default: hybrid]
    #[arg(value_name = "LOCK")]
    pub(crate) lock_first: Option<String>,

    /// The same, as a flag
    #[arg(long, value_name = "LOCK", conflicts_with = "lock_first")]
    pub(crate) lock: Option<String>,

    /// Print the counters as JSON, one line per process
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the counters as JSON Lines to a file, instead of printing them
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  overlock run -- sort --parallel=4 /etc/passwd
  overlock run ticket -- tar cf /dev/null /etc/passwd
  overlock run --lock hybrid --out counters.jsonl -- make -j8 --version

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
#[command(override_usage = "overlock compare [OPTIONS] -- PROGRAM [ARGS]...")]
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

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  overlock compare -- xz -T4 -k -c /etc/passwd
  overlock compare --check-output -- sort --parallel=4 /etc/passwd
  overlock compare --metric 'copied, ([0-9.e-]+) s' \\
      -- dd if=/dev/zero of=/dev/null bs=64k count=4096
  overlock compare --locks libc,hybrid --runs 21 --out kept.jsonl -- make -j8 --version

If the program crashes, hangs or prints something else under a lock, that is reported, and the
other locks go on. Ctrl-C ends the run; whole rounds are printed and kept.
What columns and fields mean: overlock reference
The rule of the recommendation, which `bench` follows too: overlock reference recommendation
Exit codes: 0 fine, 1 the program failed under some lock, 2 could not run or write, 130 interrupted.";

/// Show what this machine offers for running and measuring locks, and what would be better.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print one JSON record instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  overlock doctor
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

/// Where results go besides the tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON Lines instead of tables: a `run` record, then one record for each result
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print comma-separated values instead of tables
    #[arg(long)]
    pub(crate) csv: bool,

    /// Also write JSON Lines to a file, each result as soon as there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// A named set of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grid {
    /// Four common points and 12 random ones: under two minutes with 7 locks
    Quick,
    /// These four, 36 points of a grid from 50 ns to 50 us, and 60 wide random ones: half an hour
    Full,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  overlock bench                                # four common points, 12 of the day's seed
  overlock bench --random 40 --seed 7 --check   # points that no lock was tuned for
  overlock bench --random 40 --wide --locks all # with many locks, phases, long holders
  overlock bench --threads 16 --cs 0,1us --ncs 1us --seconds 1 --runs 9
  # Where did the time go?
  overlock bench --threads 2 --cs 1us --ncs 1us --explain
  # Does the spread of the lengths matter?
  overlock bench --threads 8 --cs 200ns --ncs 1us --lengths exp,uniform,fixed,bimodal
  # Short critical sections, then long ones.
  overlock bench --threads 16 --cs 50ns --ncs 1us --phase 20us/0
  taskset -c 0 overlock bench --threads 2       # two threads on one CPU
  overlock bench --grid full --out full.jsonl   # everything, every sample kept

Locks:
  main   hybrid queued ticket std parking-lot pthread yield
  ours   hybrid queued ticket test-and-set, and native-ticket, which never halts but spins
  peers  std parking-lot parking-lot-fair pthread pthread-adaptive pthread-spin spin-ticket,
         and yield: a test-and-set lock that calls sched_yield and never halts

Reading the tables (more: overlock reference):
  cs, ncs   mean lengths of critical sections and pauses; those of each operation are drawn
  floor     one operation of one thread without a lock: work, and the cost of the harness
  of best   throughput over that of the best peer at this point, in the same round (median);
            the other rounds (if any) decide which peer is best, so that luck does not;
            none where a lone thread spends most of its time in the floor
  p50 ...   waits, from a sample: 1 operation in 64 is stamped, more of them where they are long
  Jain      fairness: 1 all threads had the same share, 1/threads one had everything
  stall     the longest time that any thread waited for the lock, even if it never got it; above
            2 ms to within 2 ms, below that from the sample
  CPU/s     CPU seconds used in a second: the price of waiting

--explain shows the lock's time: held; stopped (held by a thread without a CPU); hand-over and
kept (free and wanted for at most 1 us before another, or the same, thread has it); unseen (free
and wanted for longer: no thread checked it); unwanted. Speed is the share of the throughput that
logging left. For the threads it shows how many CPUs worked or waited (and the kernel's part of
both), and how many threads stood in the run queue or slept.

The recommendation weighs throughput, Jain's index and the longest stall (ten times as long weighs
as much as a fifth of the throughput). On a tie it prefers locks that can't starve a thread. It is
a verdict only with 6 rounds or more. The rule, which `compare` follows too:
overlock reference recommendation

Ctrl-C ends the run; finished results are printed and kept.
Exit codes: 0 fine, 1 a lock lost an update, died, or failed --check, 2 could not run or write, 130 interrupted.";

/// Parses the length of a run.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .strip_suffix('s')
        .unwrap_or(text)
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.01..=600.0).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is outside 0.01 to 600 seconds"))
    }
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
