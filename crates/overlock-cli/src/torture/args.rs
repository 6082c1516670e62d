//! The command line of `overlock torture`.

use crate::flags::{seed, time, whole};
use clap::Args;
use overlock_sim::{CPUS, FaultPlan};
use std::path::PathBuf;
use std::time::Duration;

/// Take CPUs away from the locks on purpose, at every step and at random, and check the locks.
///
/// The locks' own source runs in virtual time, on a machine whose CPUs are coroutines. First come
/// fixed scripts, in which each CPU is taken away at every single step of its acquisition and
/// release. Then come random worlds, run after run, until the time is up: CPUs are taken away and
/// interrupted, waiters wake without a kick, kicks come late and twice, a lock's last user frees
/// it, waiters give up.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct TortureArgs {
    /// Locks to torture: names, or `all`
    #[arg(long, visible_alias = "locks", value_delimiter = ',', value_name = "LOCK,...")]
    #[arg(default_value = "all")]
    pub(super) lock: Vec<String>,

    /// Seed of everything that is random
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub(super) seed: u64,

    /// Total time for all locks (90s, 20m, 2h) [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub(super) span: Option<Duration>,

    /// Atomic accesses of each random run
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(value_parser = |of: &str| whole::<u64>(of, 100..=100_000_000))]
    pub(super) steps: u64,

    /// CPUs of each random run [default: 2 to 8, as the seed says]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = |of: &str| whole::<u64>(of, 2..=CPUS as u64))]
    pub(super) cpus: Option<u64>,

    /// Repeat one run, named as a failure printed it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["span", "seed", "steps", "cpus"])]
    pub(super) replay: Option<FaultPlan>,

    /// Print JSON Lines instead of tables
    #[arg(long)]
    pub(super) json: bool,

    /// Also write JSON Lines to a file
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  overlock torture --for 1m                 # all locks, one minute in all
  overlock torture --lock hybrid --for 20m --seed 7
  overlock torture --lock ticket,queued     # until Ctrl-C, which prints the summary
  overlock torture --lock hybrid --replay random:0x5eed:20000

Locks:
  test-and-set ticket queued hybrid      whose waiters halt and are kicked by number
  test-and-set-by-address                whose waiters halt on the lock word, as on a futex
  ticket-narrow                          with 8-bit tickets
  native-test-and-set native-ticket native-queued native-hybrid   whose waiters never halt
  refresh                                a shared value that one CPU refreshes for all
  mixed                                  all of these that kick by number, in one run

The checks: mutual exclusion; no lost wake-up; progress whenever a CPU that is present could go on;
order of the queue; how often the queue head is passed; no access after release; kicks; deadlines;
nothing left behind. A failure prints the last events and the command that repeats it bit for bit.

Memory is sequentially consistent here: weaker orders are left to the model checker.
Exit codes: 0 fine, 1 a check failed, 2 could not run or write, 130 interrupted before the time was up.";
