// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be typed after `overlock lab`.

use crate::args::{OutputArgs, seconds};
use crate::units::Nanos;
use clap::{Args, ValueEnum};
use overlock_world::PmTimerRule;
use overlock_world::experiment::Experiment;
use std::path::PathBuf;

/// Measure locks and yield policies on virtual CPUs that are really taken away.
///
/// A scheduler of our own runs many vCPUs on few pCPUs and preempts them in the middle of whatever
/// they do. Every combination of the lists is a point. Points with the same workload, --cs and
/// --ncs take turns, run by run in shuffled order, so that a noisy moment hits all alike; ratios
/// are formed inside one round of turns. One vCPU a pCPU (1x) is always measured along, and so is
/// the policies `none` and `report`: everything is told in relation to them.
///
/// Without any list this is a tour of a minute: locks from 1x to 8x overcommit under full
/// contention and under half of it, yield policies under a lock that only spins, and the rules by
/// which vCPUs share the ACPI PM timer. With --check it goes to 16x, and takes two minutes.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabArgs {
    /// What the vCPUs are: kvm (vCPUs of /dev/kvm), threads, or the first of these that works
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub(super) engine: EngineChoice,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

/// What is to be measured, in whatever world.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Run the experiment that this file describes: its factors, workload and host, in place of
    /// the lists and spans below
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["locks", "policies", "cpus", "pcpus", "workload", "cs", "ncs"])]
    #[arg(conflicts_with_all = ["contention", "timer", "slice", "pause_window", "sample", "grace"])]
    pub(crate) experiment: Option<PathBuf>,

    /// Locks: names, or `all`, `native`, `paravirtual`, `off`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    pub(super) locks: Vec<String>,

    /// Yield policies: who gets the processor of a vCPU that spins for long; names, or `all`
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
    pub(super) policies: Vec<String>,

    /// Numbers of vCPUs [default: 1, 2 and 4 for each pCPU]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cpus: Vec<u32>,

    /// How many of them may run at a time [default: 2, or 1 where there is only one CPU; in `sim`
    /// all of the host's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) pcpus: Option<u32>,

    /// Workloads: micro, ebizzy, kernbench, oltp, pmtimer, or a file that ends in .toml
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub(super) workload: Vec<String>,

    /// Lengths of the critical section (0, 1us, ...) [default: the workload's own]
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) cs: Vec<Nanos>,

    /// Lengths of the work between two sections [default: the workload's own]
    #[arg(long, value_delimiter = ',', value_name = "TIME,...")]
    pub(super) ncs: Vec<Nanos>,

    /// How much is asked of the lock: choose the work between two sections so that the vCPUs, if
    /// they never waited, would ask for this share (50%, ...) of what hand-overs allow
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", value_parser = percent)]
    #[arg(conflicts_with = "ncs")]
    pub(super) contention: Vec<f64>,

    /// Rules for the PM timer, where the workload reads it [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RULE,...")]
    pub(super) timer: Vec<Rule>,

    /// How long a vCPU keeps its pCPU while others wait
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(super) slice: Nanos,

    /// How long a vCPU spins until it tells the host, under policies other than `none`; 0 is for
    /// ever
    #[arg(long, value_name = "TIME", default_value = "50us")]
    pub(super) pause_window: Nanos,

    /// Under the same policies, how often to look whether a running vCPU is in a loop of pauses,
    /// for locks that report nothing; 0 is never
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) sample: Nanos,

    /// How much longer than its slice a vCPU inside a critical section may stay
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) grace: Nanos,

    /// Seconds of each run [default: 0.5; 0.2 on the tour]
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,

    /// Rounds: how often each point is run [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) runs: Option<u16>,

    /// Seed of the order in which points take turns; in `sim` also of the runs
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Run each point once more and record who ran where and who held the lock, for this long in
    /// the middle of the run; `overlock report` draws it. Nothing else is taken from that run
    #[arg(long, value_name = "TIME")]
    pub(super) timeline: Option<Nanos>,

    /// Say for each point where the time went, which yields were tried, and why others were not
    #[arg(long)]
    pub(super) explain: bool,

    /// Judge what is measured by the bounds that Overlock promises; fail if one is missed
    #[arg(long)]
    pub(super) check: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl MeasureArgs {
    /// The same with the spans of an experiment's host; `--seconds` and `--runs` stand above them.
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

    /// The seed of the order in which points take turns.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// How often each point is run.
    pub(super) fn rounds(&self) -> usize {
        self.runs.unwrap_or(3).into()
    }

    /// Says whether nothing was asked for in particular.
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

/// Reads `50%`, or `50`, as a half.
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
    /// Whoever finds the lock taken waits until it is free, and returns what it then finds
    Published,
    /// Whoever finds another reader at work waits for its result and returns that
    Refresh,
    /// Nobody waits for anybody, and no value is behind one returned before
    Clamped,
    /// Nobody waits for anybody, nothing is shared: as good as the clock is
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
  overlock lab                                        the tour
  overlock lab --engine threads                       the same where there is no /dev/kvm
  overlock lab --locks native-ticket,ticket,hybrid --cpus 4,16,32
  overlock lab --locks ticket --contention 50%,200%   half of what hand-overs allow, and twice
  overlock lab --check --runs 9                       the tour, judged
  overlock lab --policies round-robin,skip-spinners,oracle --workload ebizzy --explain
  overlock lab --policies all --pause-window 0 --sample 200us    spinners that say nothing
  overlock lab --experiment experiments/micro.toml    the same file runs in every world
  overlock lab --workload pmtimer --cpus 8,16 --out timer.jsonl
  overlock lab --locks ticket,hybrid --cpus 8 --timeline 20ms --out t.jsonl
                                                      then: overlock report t.jsonl -o t.html

Locks:
  paravirtual  test-and-set ticket queued hybrid: spin, then halt until they are kicked
  native       native-test-and-set ...: the same, not knowing of being virtual; they only spin
  off          test-and-set-off ...: the paravirtual code, switched off at run time
  hand-over    no lock: the vCPUs hand a token round, and each change of hands is one kick and one
               halt; with more vCPUs than pCPUs a lock of strict order can do no better

Policies, for whoever spins longer than --pause-window, or is found to by --sample [default: none]:
  none           the spinner spins on, and is never asked: no exits, no yields
  report         the same, but the host is told: what the others are compared with
  yield          the pCPU goes to whoever lags most in CPU time
  round-robin    to the next vCPU that is ready, after the last one boosted
  skip-spinners  the same, but spinners only every other time: what Linux does since 2012
  spin-count     the same, but the more a vCPU spins the longer it is skipped
  load-gate      skip-spinners with a short scan, and none where there is room for all
  pv-hint        to the lock's holder as locks publish it, else to the next waiter off CPU
  kick-boost     skip-spinners; and a kicked queue head gets the kicker's pCPU
  ipi-first      to a vCPU that owes an answer to an interrupt
  oracle         to the one that is truly waited for: the yardstick
With --policies and without --locks the lock is native-ticket, as the others hardly spin.

Reading the tables:
  over      vCPUs for each pCPU: the overcommit
  of 1x     throughput over that of the same lock and policy with one vCPU a pCPU
  of limit  throughput over that of hand-over, where it is measured along
  Jain      fairness: 1 all vCPUs did the same, 1/vCPUs one did everything
  stall     the longest time any vCPU stood before the lock, also if it never got it
  CPU/s     CPU seconds used in a second; spin/s those of them that went into waiting for locks
  steal/s   seconds in a second that vCPUs were ready without a pCPU, all vCPUs together
  exits/s   times in a second that a vCPU left the guest; the records say what for
  unfair    the share of acquisitions that overtook a queue
  off, on   the paravirtual build, switched off and on; native is the build without it
  slices/s  slices that ended with a preemption; of nominal: their length as it should be over as
            it was
  of report throughput over that of the same lock under the policy report; of none, of robin, of
            oracle: over that of the others, where they are measured
  asked/s   spins and kicks that the policy had to decide on; yielded: the share that let another
            vCPU run; right: the share known to have let the one run that was waited for
  in reads  the share of the CPU time between asking for the PM timer and having its value

--contention runs hand-over first, at 2x, for what hand-overs allow. P pCPUs that never wait do
P / (ncs + cs) operations in a second; ncs is chosen so that this is the wanted share of it.

Ctrl-C ends the run; what is finished is printed and kept.
Exit codes: 0 fine, 1 a run failed (a guest faulted or did not stop) or --check found a bound
missed, 2 could not run or write, 130 interrupted.";
