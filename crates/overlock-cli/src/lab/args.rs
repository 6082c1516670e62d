// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `overlock lab`.

use crate::args::{OutputArgs, seconds};
use crate::units::Nanos;
use clap::{Args, ValueEnum};
use overlock_world::PmTimerRule;
use overlock_world::experiment::Experiment;
use std::path::PathBuf;

/// Measure locks and yield policies on virtual CPUs that are really taken away.
///
/// A scheduler of our own runs many vCPUs on few pCPUs and preempts them at any instruction. Every
/// combination of the lists is a point. Points with the same workload, --cs and --ncs take turns,
/// run by run in shuffled order, so that a noisy moment affects all alike; ratios are formed inside
/// one round of turns. One vCPU per pCPU (1x) and the policies `none` and `report` are always
/// measured too, because all other results are given relative to them.
///
/// Without any list this is a tour of a minute: locks from 1x to 8x overcommit under full
/// contention and under half of it, yield policies under a lock that only spins, and the rules by
/// which vCPUs share the ACPI PM timer. With --check the tour goes to 16x and takes two minutes.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabArgs {
    /// What the vCPUs are: kvm (vCPUs of /dev/kvm), threads, or the first of these that works
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub(super) engine: EngineChoice,

    /// Measure even if there are more pCPUs than CPUs: the system then takes CPUs away as well,
    /// which no figure accounts for
    #[arg(long)]
    pub(super) oversubscribe: bool,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// What to measure, in any world.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Run an experiment, whose factors, workload and host replace the lists and spans below: a
    /// built-in one (micro, s1, s2-kernbench, s2-oltp, s2-ebizzy, s3, s4-36-cores, s4-16-cores,
    /// s4-micro, s5), or a file
    #[arg(long, value_name = "NAME|FILE")]
    #[arg(conflicts_with_all = ["locks", "policies", "cpus", "pcpus", "workload", "cs", "ncs"])]
    #[arg(conflicts_with_all = ["contention", "timer", "slice", "pause_window", "sample", "grace"])]
    pub(crate) experiment: Option<PathBuf>,

    /// Locks: names, or `all`, `native`, `paravirtual`, `off`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    pub(super) locks: Vec<String>,

    /// Yield policies: which vCPU gets the processor of one that spins for long; names, or `all`
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
    pub(super) policies: Vec<String>,

    /// Numbers of vCPUs [default: 1, 2 and 4 for each pCPU]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cpus: Vec<u32>,

    /// How many of them can run at a time [default: 2, or 1 where there is only one CPU; in `sim`
    /// all of the host's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) pcpus: Option<u32>,

    /// Workloads: micro, ebizzy, kernbench, oltp, pmtimer, or a file that ends in .toml
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub(super) workload: Vec<String>,

    /// Lengths of the critical section (0, 1us, ...) [default: the workload's own]
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) cs: Vec<Nanos>,

    /// Lengths of the work between two critical sections [default: the workload's own]
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) ncs: Vec<Nanos>,

    /// How contended the lock is: choose the work between two critical sections so that the vCPUs,
    /// if they never waited, would demand this share (50%, ...) of what hand-overs allow
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", value_parser = percent)]
    #[arg(conflicts_with = "ncs")]
    pub(super) contention: Vec<f64>,

    /// Rules for the PM timer, where the workload reads it [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RULE,...")]
    pub(super) timer: Vec<Rule>,

    /// How long a vCPU keeps its pCPU while others wait
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(super) slice: Nanos,

    /// How long a vCPU spins before it reports to the host, under policies other than `none`; 0
    /// means for ever
    #[arg(long, value_name = "TIME", default_value = "50us")]
    pub(super) pause_window: Nanos,

    /// Under the same policies, how often to check whether a running vCPU is in a loop of pauses,
    /// for locks that report nothing; 0 means never
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) sample: Nanos,

    /// How much longer than its slice a vCPU may run while inside a critical section
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) grace: Nanos,

    /// Length of each run in seconds [default: 0.5; 0.2 on the tour]
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,

    /// Rounds: how often each point is run [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) runs: Option<u16>,

    /// Seed of the order in which points take turns; in `sim` also of the runs
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Run each point once more and record which vCPU ran where and which held the lock, for this
    /// long in the middle of the run; `overlock report` draws it. Nothing else is taken from that
    /// run
    #[arg(long, value_name = "TIME")]
    pub(super) timeline: Option<Nanos>,

    /// Show for each point where the time went, which yields were tried, and why others were not
    #[arg(long)]
    pub(super) explain: bool,

    /// Judge the results by the bounds that Overlock promises; fail if one is missed
    #[arg(long)]
    pub(super) check: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl MeasureArgs {
    /// Replaces the spans by those of an experiment's host; `--seconds` and `--runs` take
    /// precedence.
    pub(super) fn with(&self, experiment: &Experiment) -> Self {
        let host = &experiment.host;
        Self {
            pcpus: Some(host.pcpus),
            slice: Nanos(host.slice_ns),
            grace: Nanos(host.grace_ns),
            pause_window: Nanos(host.pause_window_ns),
            sample: Nanos(host.sample_ns),
            seconds: self.seconds.or(Some(host.seconds)),
            runs: self.runs.or(Some(host.runs)),
            ..self.clone()
        }
    }

    /// Returns the seed of the order in which points take turns.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns how often each point is run.
    pub(super) fn rounds(&self) -> usize {
        self.runs.unwrap_or(3).into()
    }

    /// Returns whether nothing in particular was requested.
    pub(super) fn is_tour(&self) -> bool {
        let named = [&self.locks, &self.policies, &self.workload];
        named.into_iter().all(Vec::is_empty)
            && self.cpus.is_empty()
            && self.cs.is_empty()
            && self.ncs.is_empty()
            && self.contention.is_empty()
            && self.timer.is_empty()
    }
}

/// Parses `50%`, or `50`, as a half.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>();
    let share = number.ok().filter(|percent| (1.0..=1000.0).contains(percent));
    share.map(|percent| percent / 100.0).ok_or_else(|| "choose 1% to 1000%".into())
}

/// Which engine runs the vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// kvm where it is available, else threads
    Auto,
    /// Real vCPUs of /dev/kvm
    Kvm,
    /// Threads that a signal parks
    Threads,
}

/// How vCPUs that read the PM timer at the same time share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Rule {
    /// A mutex for each read
    Mutex,
    /// A reader that finds the lock taken waits until it is free, and returns what it then finds
    Published,
    /// A reader that finds another at work waits for its result and returns that
    Refresh,
    /// No reader waits for another, and no value is behind one returned before
    Clamped,
    /// No reader waits and nothing is shared: the values are as good as the clock
    LockFree,
}

impl From<Rule> for PmTimerRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Mutex => Self::Mutex,
            Rule::Published => Self::Published,
            Rule::Refresh => Self::Refresh,
            Rule::Clamped => Self::Clamped,
            Rule::LockFree => Self::LockFree,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  overlock lab                                        # the tour
  overlock lab --engine threads                       # the same where there is no /dev/kvm
  overlock lab --locks native-ticket,ticket,hybrid --cpus 4,16,32
  overlock lab --locks ticket --contention 50%,200%   # half of what hand-overs allow, and twice
  overlock lab --check --runs 9                       # the tour, judged
  overlock lab --policies round-robin,skip-spinners,oracle --workload ebizzy --explain
  overlock lab --policies all --pause-window 0 --sample 200us    # spinners that report nothing
  overlock lab --experiment micro                     # the same experiment runs in every world
  overlock lab --workload pmtimer --cpus 8,16 --out timer.jsonl
  overlock lab --locks ticket,hybrid --cpus 8 --timeline 20ms --out t.jsonl
  overlock report t.jsonl -o t.html                   # draws that timeline

Locks:
  paravirtual  test-and-set ticket queued hybrid: spin, then halt until they are kicked
  native       native-test-and-set ...: the same, unaware of virtual CPUs; they only spin
  off          test-and-set-off ...: the paravirtual code, switched off at run time
  hand-over    no lock: the vCPUs pass a token round, and each hand-over is one kick and one
               halt; with more vCPUs than pCPUs a lock in strict order can do no better

Policies, for vCPUs that spin longer than --pause-window, or that --sample finds [default: none]:
  none           the spinner spins on without an exit: no reports, no yields
  report         the spinner reports to the host, which does nothing: the base of comparison
  yield          the pCPU goes to the vCPU that lags most in CPU time
  round-robin    to the next vCPU that is ready, after the last one boosted
  skip-spinners  the same, but spinners only every other time: Linux's policy since 2012
  spin-count     the same, but the more a vCPU spins the longer it is skipped
  load-gate      skip-spinners with a short scan, and none where all vCPUs have a pCPU
  pv-hint        to the lock holder as locks publish it, else to the next waiter off CPU
  kick-boost     skip-spinners; and a kicked queue head gets the kicker's pCPU
  ipi-first      to a vCPU that owes an answer to an interrupt
  oracle         to the vCPU that is truly waited for: the yardstick
With --policies and without --locks the lock is native-ticket, because the others hardly spin.

Reading the tables:
  over      vCPUs for each pCPU: the overcommit
  of 1x     throughput over that of the same lock and policy with one vCPU per pCPU
  of limit  throughput over that of hand-over, where that is measured too
  Jain      fairness: 1 all vCPUs did the same, 1/vCPUs one did everything
  p50, ...  percentiles of the wait for a lock; one that was free at the first attempt counts as 0
  stall     the longest time that any vCPU waited for the lock, even if it never got it
  CPU/s     CPU seconds used in a second; spin/s: the part spent waiting for locks
  steal/s   seconds in a second for which vCPUs were ready without a pCPU, all vCPUs together
  exits/s   how often per second a vCPU left the guest; the records give the reasons
  unfair    the share of acquisitions that overtook a queue
  off, on   the paravirtual build, switched off and on; native is the build without it
  slices/s  slices that ended with a preemption; of nominal: their nominal length over their
            actual length
  of report throughput over that of the same lock under the policy report; of none, of robin, of
            oracle: over that of the others, where they are measured
  asked/s   spins and kicks that the policy had to decide on; yielded: the share that let another
            vCPU run; right: the share known to have run the vCPU that was waited for
  in reads  the share of the CPU time between asking for the PM timer and having its value

--contention first runs hand-over, at 2x, to measure what hand-overs allow. P pCPUs that never wait
do P / (ncs + cs) operations per second; ncs is chosen so that this is the requested share of it.

Ctrl-C ends the run; finished results are printed and kept.
Exit codes: 0 fine, 1 a run failed (a guest faulted or did not stop) or --check found a bound
missed, 2 could not run or write, 130 interrupted.";
