// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of one run: what `overlock lab` prints and saves.

use std::collections::BTreeMap;

use overlock_host::sched::yield_to::{Chosen, Missed, Skipped, Tally as Yields};
use serde::Serialize;

use super::tally::Tally;
use super::{Histogram, Profile};
use crate::engine::{Config, Engine, Outcome};
use crate::host::Accounts;

/// Something summed up over vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerCpu {
    /// The least.
    pub min: u64,
    /// The mean.
    pub avg: f64,
    /// The most.
    pub max: u64,
}

/// Waits for a lock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WaitNs {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The longest that ended.
    pub max: u64,
}

/// What became of the time that vCPUs waited for one lock, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Nanoseconds waited.
    pub waited_ns: u64,
    /// Those of them in which the holder was ready to run, but without a processor.
    pub holder_off_ns: u64,
    /// Those in which the lock was free, but could only go to a vCPU that was without a processor;
    /// 0 for locks that go to anyone.
    pub next_off_ns: u64,
    /// Those in which the holder waited for an answer to an interrupt, from a vCPU that was without
    /// a processor. The holder may have been without one too.
    pub debtor_off_ns: u64,
}

/// What a workload has seen of itself.
pub(super) struct Seen<'a> {
    pub(super) tallies: &'a [Tally],
    pub(super) locks: Vec<Losses>,
    pub(super) counters: Vec<(&'static str, u64)>,
}

/// One run of one workload under one lock and one yield policy.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The engine: `kvm` or `threads`.
    pub world: &'static str,
    /// The workload's name.
    pub workload: String,
    /// The lock's name.
    pub lock: String,
    /// The yield policy's name.
    pub policy: String,
    /// vCPUs.
    pub cpus: u32,
    /// pCPUs.
    pub pcpus: u32,
    /// Nanoseconds of a critical section.
    pub cs_ns: u64,
    /// Nanoseconds between sections.
    pub ncs_ns: u64,
    /// How long the vCPUs ran, in seconds.
    pub seconds: f64,
    /// Operations of all vCPUs in a second.
    pub ops_per_s: f64,
    /// Operations of each vCPU.
    pub ops_per_cpu: PerCpu,
    /// Jain's index of fairness over operations: 1 is equal, 1/n is one vCPU alone.
    pub jain: f64,
    /// Waits for locks.
    pub wait_ns: WaitNs,
    /// The longest wait, one included that went on when the run ended.
    pub longest_stall_ns: u64,
    /// CPU seconds used in a second: at most `pcpus`.
    pub cpu_s_per_s: f64,
    /// CPU seconds in a second that went into waiting for locks.
    pub spin_s_per_s: f64,
    /// Seconds in a second that vCPUs were runnable without a processor, all together.
    pub steal_s_per_s: f64,
    /// Where the waits went, lock by lock. They count on to their own end where the run ends first.
    pub locks: Vec<Losses>,
    /// Nanoseconds that a read of the PM timer took, on average; 0 without reads.
    pub timer_read_ns: f64,
    /// Reads of the PM timer that went backwards: must be 0.
    pub timer_backwards: u64,
    /// Exits of all vCPUs, by kind.
    pub exits: BTreeMap<&'static str, u64>,
    /// Yields, by what came of them and why; and who was passed over, and why.
    pub yields: BTreeMap<String, u64>,
    /// How often a yield went to the vCPU that was truly waited for.
    pub yield_hits: u64,
    /// Events inside the lock.
    pub counters: BTreeMap<&'static str, u64>,
    /// What the host saw of each vCPU.
    pub vcpus: Vec<Accounts>,
}

impl Record {
    /// Sums a run up.
    pub(super) fn new<E: Engine>(
        config: &Config,
        profile: &Profile,
        lock: &str,
        outcome: &Outcome,
        Seen { tallies, locks, counters }: Seen,
    ) -> Self {
        let seconds = outcome.ran.as_secs_f64();
        let ended_ns = outcome.ended_ns;
        let operations: Vec<u64> = tallies.iter().map(|t| value(&t.operations)).collect();
        let waits: Vec<&Histogram> = tallies.iter().map(|t| &t.waits).collect();
        let [p50, p99, p999] = Histogram::quantiles(&waits, [0.5, 0.99, 0.999]);
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
        let host = |of: fn(&Accounts) -> u64| outcome.vcpus.iter().map(of).sum::<u64>();
        let share = |ns: u64| ns as f64 / 1e9 / seconds;
        let reads = host(|vcpu| vcpu.pm_reads).max(1);
        Self {
            world: E::NAME,
            workload: profile.name.clone(),
            lock: lock.to_owned(),
            policy: config.policy.to_owned(),
            cpus: config.vcpus,
            pcpus: config.pcpus,
            cs_ns: profile.section_ns,
            ncs_ns: profile.think_ns,
            seconds,
            ops_per_s: operations.iter().sum::<u64>() as f64 / seconds,
            ops_per_cpu: per_cpu(&operations),
            jain: jain(&operations),
            wait_ns: WaitNs { p50, p99, p999, max: largest(tallies, |t| value(&t.longest_ns)) },
            longest_stall_ns: largest(tallies, |t| t.longest_stall_ns(ended_ns)),
            cpu_s_per_s: share(host(|vcpu| vcpu.ran_ns)),
            spin_s_per_s: share(sum(|t| value(&t.spun_ns))),
            steal_s_per_s: share(host(|vcpu| vcpu.steal_ns)),
            locks,
            timer_read_ns: sum(|t| value(&t.timer_ns)) as f64 / reads as f64,
            timer_backwards: sum(|t| value(&t.timer_backwards)),
            exits: exits(&outcome.vcpus),
            yields: yields(&outcome.yields),
            yield_hits: outcome.yields.hits(),
            counters: counters.into_iter().collect(),
            vcpus: outcome.vcpus.clone(),
        }
    }
}

fn value(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

fn largest(tallies: &[Tally], of: impl Fn(&Tally) -> u64) -> u64 {
    tallies.iter().map(of).max().unwrap_or(0)
}

fn per_cpu(values: &[u64]) -> PerCpu {
    PerCpu {
        min: values.iter().copied().min().unwrap_or(0),
        avg: values.iter().sum::<u64>() as f64 / values.len().max(1) as f64,
        max: values.iter().copied().max().unwrap_or(0),
    }
}

/// Jain's index: the square of the sum over n times the sum of squares (Jain, Chiu, Hawe 1984).
fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|&v| v as f64).sum();
    let squares: f64 = values.iter().map(|&v| (v as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

fn exits(vcpus: &[Accounts]) -> BTreeMap<&'static str, u64> {
    type Count = fn(&Accounts) -> u64;
    let kinds: [(&str, Count); 9] = [
        ("halt", |v| v.halts),
        ("kick", |v| v.kicks),
        ("interrupt", |v| v.interrupts),
        ("long-spin", |v| v.long_spins),
        ("yield", |v| v.yields),
        ("end-of-grace", |v| v.graces),
        ("eviction", |v| v.evictions),
        ("preemption", |v| v.preemptions),
        ("pm-timer", |v| v.pm_reads),
    ];
    kinds.map(|(kind, of)| (kind, vcpus.iter().map(of).sum())).into()
}

/// Every reason that was given, as `directed:lock-holder`, `skipped:running` and so on.
fn yields(tally: &Yields) -> BTreeMap<String, u64> {
    let directed = Chosen::ALL.map(|why| (format!("directed:{}", why.name()), tally.directed(why)));
    let plain = Missed::ALL.map(|why| (format!("plain:{}", why.name()), tally.plain(why)));
    let stayed = Missed::ALL.map(|why| (format!("stayed:{}", why.name()), tally.stayed(why)));
    let skipped = Skipped::ALL.map(|why| (format!("skipped:{}", why.name()), tally.skipped(why)));
    let all = directed.into_iter().chain(plain).chain(stayed).chain(skipped);
    all.filter(|&(_, count)| count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one_alone() {
        assert!((jain(&[5, 5, 5, 5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[9, 0, 0, 0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }
}
