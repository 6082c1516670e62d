// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be typed after `overlock sim`.

use crate::lab::MeasureArgs;
use clap::Args;

/// Run the laboratory's experiments in virtual time, on a host of any size.
///
/// The locks, the scheduler of the vCPUs and the yield policies are those of `overlock lab`; what
/// everything costs is what a host's file says: how long a cache line is on its way, what an exit,
/// a switch and a wake-up take. So this says what would happen on 36 cores as far as the model
/// goes, and nothing else: `overlock validate` holds it against the laboratory where both can run.
/// The same command with the same seed gives the same figures, to the last digit.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// The host: dev-kvm and dev-threads (the machine that this was written on, measured); x5570,
    /// x7560, power8, e5-2699v3, e5-2620v4, opteron-48 (from the literature); or a file that ends
    /// in .toml
    /// [default: dev-kvm, or what the experiment's file says]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,

    /// Charge each read-modify-write as a sequentially consistent one
    #[arg(long)]
    pub(super) seq_cst: bool,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

const EXAMPLES: &str = "\
Examples:
  overlock sim --locks native-ticket,hybrid --cpus 4,16     two pCPUs, as in the laboratory
  overlock sim --host e5-2699v3 --locks queued,hybrid --cpus 72 --cs 1us --seconds 0.05    36 cores
  overlock sim --experiment experiments/micro.toml          the same file runs in every world
  overlock sim --host my.toml --workload ebizzy --policies all --pcpus 16 --cpus 32

All lists and columns are those of `overlock lab --help`; --pcpus is all of the host's by default.
Exit codes: 0 fine, 1 a run failed or --check found a bound missed, 2 could not run or write, 130
interrupted.";
