//! The command line of `overlock bench`.

use crate::flags::{OutputArgs, seconds, seed, whole};
use crate::shard::Shard;
use crate::worlds::Options;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use overlock_bench::experiment::Experiment;
use overlock_results::Lengths;
use overlock_results::locks::PEERS;
use overlock_results::units::DurationArg;
use overlock_sim::hosts::More;
use std::path::PathBuf;

/// Measure locks: on this machine's threads, on virtual CPUs, in simulated hosts, inside kernels.
///
/// A point is a number of threads (or vCPUs), and the lengths of critical sections and of the
/// pauses between them. At each point the locks take turns, run by run in shuffled order, so that a
/// noisy moment affects all of them alike. Ratios are taken inside one round of turns; tables show
/// medians over the rounds.
#[derive(Clone, Debug, Args)]
#[command(after_help = SHORT, after_long_help = long(), allow_negative_numbers = true)]
pub(crate) struct BenchArgs {
    /// Experiments, built in or files, instead of the lists below [default: by the world]
    #[arg(value_name = "EXPERIMENT")]
    pub(super) experiments: Vec<PathBuf>,

    /// The world: threads, kvm, sim[:HOST], tcg, kvm-guest, xen
    #[arg(long = "in", value_name = "WORLD")]
    pub(super) world: Option<String>,

    /// Locks: names, or `main`, `all`, `ours`, `peers`, `native`, `paravirtual`, `off`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    pub(super) locks: Vec<String>,

    /// Numbers of threads or vCPUs
    #[arg(long, visible_alias = "threads", value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = |of: &str| whole::<u32>(of, 1..=4096))]
    pub(super) cpus: Vec<u32>,

    /// How many vCPUs can run at a time
    #[arg(long, value_name = "N", value_parser = |of: &str| whole::<u32>(of, 1..=512))]
    pub(super) pcpus: Option<u32>,

    /// Lengths of the critical section (0, 100ns, 1us, ...)
    #[arg(long, allow_hyphen_values = true, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) cs: Vec<DurationArg>,

    /// Lengths of the pause between two critical sections
    #[arg(long, allow_hyphen_values = true, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) ncs: Vec<DurationArg>,

    /// Draw this many points at random instead: 1 to 64 threads, 50 ns to 50 us or nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["cpus", "cs", "ncs"])]
    #[arg(value_parser = |of: &str| whole::<u16>(of, 1..=1000))]
    pub(super) random: Option<u16>,

    /// For threads: how lengths are spread around their means
    #[arg(long, value_parser = spreads(), value_delimiter = ',', value_name = "SPREAD,...")]
    pub(super) lengths: Vec<Lengths>,

    /// For vCPUs: yield policies, or `all`
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
    pub(super) policies: Vec<String>,

    /// For threads: how many percent of the operations only read
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...")]
    #[arg(value_parser = |of: &str| whole::<u8>(of, 0..=100))]
    pub(super) read_share: Vec<u8>,

    /// For vCPUs: micro, ebizzy, ...; for threads: ping-pong, producer-consumer, broadcast
    #[arg(long, value_name = "NAME", conflicts_with = "read_share")]
    pub(super) workload: Option<String>,

    /// For threads: beside how many busy processes to measure; 0 is none [default: 0 and, if no
    /// points are named, as many as there are CPUs]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = |of: &str| whole::<u32>(of, 0..=1024))]
    pub(super) beside: Vec<u32>,

    /// Length of each run in seconds
    #[arg(long, value_parser = |of: &str| seconds(of, 600.0))]
    pub(super) seconds: Option<f64>,

    /// Rounds: how often each point is run
    #[arg(long, value_parser = |of: &str| whole::<u16>(of, 1..=1000))]
    pub(super) runs: Option<u16>,

    /// Seed of everything that is drawn [default: 1; where points are drawn, today's]
    #[arg(long, value_parser = seed)]
    pub(super) seed: Option<u64>,

    /// Show where the time went
    #[arg(long)]
    pub(super) explain: bool,

    /// Judge the results by what Overlock promises; exit 1 if a bound is missed
    #[arg(long)]
    pub(super) check: bool,

    /// Print the experiment as a file, and measure nothing
    #[arg(long, hide_short_help = true)]
    pub(super) print: bool,

    /// For vCPUs: record who ran where for this long, for `overlock report`
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", hide_short_help = true)]
    pub(super) timeline: Option<DurationArg>,

    /// Measure only every Nth point, from the Ith on, as one job of several
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    pub(super) shard: Option<Shard>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl BenchArgs {
    /// The world of an experiment: as asked for, or the one that it was made for.
    pub(super) fn world(&self, experiment: &Experiment) -> String {
        match (self.world.as_deref(), &experiment.host.machine) {
            (None | Some("sim"), Some(host)) => format!("sim:{host}"),
            (Some(name), _) => name.to_owned(),
            (None, None) => "threads".into(),
        }
    }

    /// What only some worlds need.
    pub(super) fn options(&self, more: More) -> Options {
        Options { more, note: crate::output::complain }
    }

    /// Whether no list says which points to measure.
    pub(super) fn names_no_point(&self) -> bool {
        let lists = self.cpus.is_empty() && self.cs.is_empty() && self.ncs.is_empty();
        let lists = lists && self.read_share.is_empty();
        lists && self.random.is_none() && self.policies.is_empty() && self.workload.is_none()
    }
}

/// The long help, with the names of all peers.
fn long() -> String {
    let peers = PEERS.into_iter().filter(|name| *name != "yield" && !name.contains("rwlock"));
    LONG.replace("{peers}", &peers.collect::<Vec<_>>().join(" "))
}

fn spreads() -> impl TypedValueParser<Value = Lengths> {
    let named = Lengths::ALL.map(|one| PossibleValue::new(one.name()));
    PossibleValuesParser::new(named).map(|name| {
        let known = Lengths::ALL.into_iter().find(|one| one.name() == name);
        known.expect("no other name is possible")
    })
}

const SHORT: &str = "\
Examples:
  overlock bench                                  # which lock suits this machine?
  overlock bench --random 40 --seed 7 --check     # points that no lock was tuned for
  overlock bench --in kvm                         # vCPUs that are really taken away
  overlock bench micro                            # a small experiment, with figures to stand beside

All options, worlds, locks, policies and columns: overlock bench --help";

const LONG: &str = "\
Worlds (what can run here, and why not: overlock doctor):
  threads     threads of this machine, beside std, parking_lot, pthread and others
  kvm         real vCPUs of /dev/kvm that our scheduler runs, and takes away at any instruction
  sim[:HOST]  virtual time, on a host of any size: dev-kvm, dev-threads, x5570, x7560, power8,
              e5-2699v3, e5-2620v4, opteron-48, four-sockets, or a file that
              overlock doctor --calibrate wrote
  tcg         a kernel on a bare machine that QEMU emulates; this world and the next two need
              the program overlock-kernels (cargo install --locked --path kernels/command)
  kvm-guest   the same kernel as a guest of KVM, that of a Linux which QEMU runs
  xen         the same kernel as a guest of Xen (PVH)

Experiments (any of them in any world that can run it; `--print` shows the file):
  quick full                        threads: 16 points in two minutes, 100 in half an hour
  half tour yields timer            vCPUs: locks at 1x to 8x overcommit, yield policies, PM timer
  micro                             one small experiment for every world
  wake-5us wake-50us wake-150us     vCPUs that take this long to run again after a halt
  s1 s2-kernbench s2-oltp s2-ebizzy s3 s4-36-cores s4-16-cores s4-micro s5
                                    five documents, whose published figures stand beside ours; they
                                    need overlock-papers (cargo install --locked --path papers)
  FILE.toml                         your own; slices, pause windows and graces are set there

Locks:
  ours        hybrid queued ticket test-and-set
  native-...  the same, unaware of virtual CPUs: they only spin
  ...-off     the paravirtual code, switched off at run time
  peers       {peers},
              and yield: a test-and-set lock that calls sched_yield and never halts; for threads
  readers     rwlock (ours), std-rwlock,
              parking-lot-rwlock, pthread-rwlock: what main, ours, ... mean with --read-share
  hand-over   no lock: vCPUs pass a token round, which no lock in strict order can exceed

Workloads:
  micro ebizzy kernbench oltp pmtimer     for vCPUs; threads do micro
  ping-pong           threads wait for one another in turn, two by two, on a condition variable
  producer-consumer   half of the threads fill a buffer of 16 places, half empty it
  broadcast           one thread releases all others at once, as soon as all have come

Yield policies, for vCPUs that spin for long:
  none           the spinner spins on: no reports, no yields
  report         the spinner reports to the host, which does nothing: the base of comparison
  yield          the pCPU goes to the vCPU that lags most in CPU time
  round-robin    to the next vCPU that is ready, after the last one boosted
  skip-spinners  the same, but spinners only every other time: Linux's policy of 2012
  spin-count     the same, but the more a vCPU spins the longer it is skipped
  load-gate      skip-spinners with a short scan, and none where all vCPUs have a pCPU
  linux          skip-spinners, but not to a vCPU that was preempted in user mode: Linux 7
  ipi-first      to one that owes the spinner, or another, an answer to an IPI, else skip-spinners
  linux-ipi      to the one that the spinner interrupted last, else linux: W. Li's series of 2025
  pv-hint        to the lock holder as locks publish it, else to the next waiter off CPU
  oracle         to the vCPU that is truly waited for: the yardstick

What each column means: overlock reference COLUMN. The recommendation weighs throughput, Jain's
index and the longest stall (ten times as long weighs as much as a fifth of the throughput); it is a
verdict only with 6 rounds or more: overlock reference recommendation

Examples:
  overlock bench --threads 16 --cs 0,1us --ncs 1us --seconds 1 --runs 9
  overlock bench --threads 2 --cs 1us --ncs 1us --explain        # where did the time go?
  overlock bench --threads 8 --cs 200ns --ncs 1us --lengths exp,uniform,fixed,bimodal
  overlock bench --read-share 0,50,90,99,100 --random 20        # readers and writers
  overlock bench --workload ping-pong --threads 2,8              # condition variables
  overlock bench --in kvm --locks native-ticket,ticket,hybrid --cpus 4,16
  overlock bench --in kvm --policies round-robin,oracle --workload ebizzy --explain
  overlock bench --in sim:e5-2699v3 --locks queued,hybrid --cpus 72 --cs 1us --seconds 0.05
  overlock bench --in kvm --locks ticket,hybrid --cpus 8 --timeline 20ms --out t.jsonl
  overlock bench --in sim --shard 1/2 --locks all --cs 0,1us --cpus 4,8 --seconds 0.05

Ctrl-C ends the run; finished results are printed and kept.
Exit codes: 0 fine, 1 a lock lost an update, died, or missed a bound of --check, 2 could not run or
write, 130 interrupted.";
