// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `overlock sim`.

use super::sweep::Shard;
use crate::lab::{MeasureArgs, Tail};
use clap::Args;
use std::num::NonZeroU16;
use std::path::PathBuf;

/// Run the laboratory's experiments in virtual time, on a host of any size.
///
/// The locks, the scheduler of the vCPUs and the yield policies are those of `overlock lab`; a
/// host's file says what everything costs: how long a cache line is on its way, what an exit, a
/// switch and a wake-up take. So this predicts what would happen on 36 cores, as far as the model
/// goes and no further: `overlock validate` compares it with the laboratory where both can run. The
/// same command with the same seed gives the same figures, to the last digit.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// The host: dev-kvm and dev-threads (the machine that this was written on, measured); x5570,
    /// x7560, power8, e5-2699v3, e5-2620v4, opteron-48, four-sockets (from the literature); or a
    /// file that ends in .toml [default: dev-kvm, or the host that the experiment's file names]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,

    /// Charge each read-modify-write as a sequentially consistent one
    #[arg(long)]
    pub(super) seq_cst: bool,

    /// Charge cache lines from another socket like those from this one. This bounds what a
    /// NUMA-aware lock could gain
    #[arg(long)]
    pub(super) flat: bool,

    /// Find the highest overcommit at which throughput stays within this loss (10%, ...) of that
    /// with one vCPU for each pCPU, and waits within --p999, by lock and policy. Without --cpus it
    /// tries 1 to 16 vCPUs for each pCPU
    #[arg(long, value_name = "PERCENT", value_parser = loss)]
    pub(super) what_if: Option<f64>,

    /// For --what-if: the limit on the 99.9th percentile of waits, as a multiple of that with one
    /// vCPU for each pCPU (10x), or as a time (5ms)
    #[arg(long, value_name = "TIMES", default_value = "10x", requires = "what_if")]
    pub(super) p999: Tail,

    /// Keep each run in a file in this folder as soon as it ends. The same command finds it there
    /// and makes only the missing runs
    #[arg(long, value_name = "FOLDER")]
    pub(super) sweep: Option<PathBuf>,

    /// Make only this part of a sweep. Parts can run at the same time, and on other machines. Once
    /// all files are in one folder, the command without --shard prints the results
    #[arg(long, value_name = "I/N", requires = "sweep")]
    pub(super) shard: Option<Shard>,

    /// Number of processes that simulate at a time [default: one for each CPU]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroU16>,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// Parses `10%`, or `10`, as a tenth.
fn loss(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>();
    let loss = percent.ok().filter(|percent| (0.0..100.0).contains(percent));
    loss.map(|percent| percent / 100.0).ok_or_else(|| "choose 0% to 99%".into())
}

const EXAMPLES: &str = "\
Examples:
  overlock sim --locks native-ticket,hybrid --cpus 4,16     # two pCPUs, as in the laboratory
  overlock sim --host e5-2699v3 --locks queued,hybrid --cpus 72 --cs 1us --seconds 0.05 # 36 cores
  overlock sim --experiment micro                           # this experiment runs in every world
  overlock sim --what-if 20% --locks native-ticket,queued,hybrid --workload kernbench
  # On a host that `calibrate` has measured: this one.
  overlock calibrate --out here.toml
  overlock sim --host here.toml --workload ebizzy --policies all --pcpus 2 --cpus 8
  # In two parts, which can run anywhere; without --shard, the whole is printed.
  overlock sim --sweep runs --shard 1/2 --locks all --cpus 4,8,16 --seconds 0.05
  overlock sim --sweep runs --shard 2/2 --locks all --cpus 4,8,16 --seconds 0.05
  overlock sim --sweep runs --locks all --cpus 4,8,16 --seconds 0.05

All lists and columns are those of `overlock lab --help`; --pcpus defaults to all of the host's.
Exit codes: 0 fine, 1 a run failed or --check found a bound missed, 2 could not run or write, 130
interrupted.";
