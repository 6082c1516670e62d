//! What can be typed: every sub-command, flag and example.
//!
//! The help texts are written to teach: they say what a flag is for and end in examples that run.

use crate::units::Nanos;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Spin locks that survive a lost CPU: measure them, compare them, put them under any program.
#[derive(Debug, Parser)]
#[command(name = "overlock", version, about, subcommand_required = true)]
#[command(after_help = "Exit codes: 0 fine, 1 a check failed, 2 could not run, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(BenchArgs),
    /// One run of `bench`, in a process of its own.
    #[command(hide = true, name = "bench-child")]
    BenchChild {
        spec: String,
    },
}

/// Measure locks against std, parking_lot and pthread on this machine.
///
/// Every combination of --threads, --cs and --ncs is a point. At each point the locks take turns,
/// run by run in shuffled order, so that a noisy moment of the machine hits all of them alike.
/// Ratios are taken inside one round of turns. The table shows medians over the rounds.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Locks to measure: names, or `all`, `ours`, `peers`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...", default_value = "all")]
    pub(crate) locks: Vec<String>,

    /// Numbers of threads
    #[arg(long, visible_alias = "cpus", value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) threads: Vec<u16>,

    /// Lengths of the critical section (0, 100ns, 1us, ...)
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(crate) cs: Vec<Nanos>,

    /// Lengths of the pause between two sections
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(crate) ncs: Vec<Nanos>,

    /// Which points to measure where the lists above are not given
    #[arg(long, value_enum, default_value_t = Grid::Quick)]
    pub(crate) grid: Grid,

    /// Seconds of each run
    #[arg(long, value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    /// Rounds: how often each lock is run at each point
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: Option<u16>,

    /// Seed of the order in which the locks take turns
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Check the bounds that Overlock promises, list each point that misses one; exit 1 if any
    #[arg(long)]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Where results go besides the tables.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON Lines instead of tables: a `run` record, then one record for each result
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print comma-separated values instead of tables
    #[arg(long)]
    pub(crate) csv: bool,

    /// Also write JSON Lines to a file, each result as it comes
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// A named set of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grid {
    /// 1 thread to 8 for each CPU, short runs: under two minutes on 2 CPUs
    Quick,
    /// 1 to 64 threads, sections of 0 to 10 us, pauses of 0 and 1 us: an hour or so
    Full,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  overlock bench                                      the quick grid, all locks
  overlock bench --locks hybrid,std,parking-lot       only these
  overlock bench --threads 16 --cs 0,1us --ncs 1us --seconds 1 --runs 9
  overlock bench --grid full --check --out full.jsonl everything, checked, every sample kept

Reading the table:
  of best   throughput over that of the best peer at this point, in the same round (median)
  Jain      fairness: 1 all threads had the same share, 1/threads one had everything
  stall     the longest time any thread stood before the lock, also if it never got it
  CPU/s     CPU seconds burnt in a second: the price of waiting

Ctrl-C ends the run; what is finished is printed and kept.
Exit codes: 0 fine, 1 a lock lost an update, died, or failed --check, 2 could not run, 130 interrupted.";

/// Parses a length of a run.
fn seconds(text: &str) -> Result<f64, String> {
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
