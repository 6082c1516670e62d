//! The command line: every sub-command. The flags of each, and examples, stand by its verb.
//!
//! The help texts teach: they say what a flag is for and end in examples that run.

use crate::bench::BenchArgs;
use crate::doctor::DoctorArgs;
use crate::extras::{CompletionsArgs, ManPagesArgs};
use crate::process::{CompareArgs, RunArgs};
use crate::reference::ReferenceArgs;
use clap::{Parser, Subcommand};

/// Locks for CPUs that get taken away: see why threads wait, and measure, compare and use locks.
#[derive(Debug, Parser)]
#[command(name = "overlock", version, subcommand_required = true)]
#[command(after_help = "What every counter, column and field means: overlock reference\n\
                  Policies on a host with sched_ext, and recordings of any host: overlock host, \
                  overlock replay\n\
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
    /// A busy process beside a run.
    #[command(hide = true, name = "bench-neighbour")]
    BenchNeighbour,
    /// Simulated runs, in their own process.
    #[command(hide = true, name = "sim-child")]
    SimChild,
}
