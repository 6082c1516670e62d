//! A run of vCPUs, from what its engine saw and what its workload counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock_results::stats::{Histogram, Spread, jain};
use overlock_results::{Accounts, Losses, Name, Run, WaitNs};

use crate::vcpus::timeline::{Log, Window, combined};
use crate::vcpus::workload::tally::Tally;
use crate::{Observed, RunConfig};

/// What a workload counted about itself.
pub(crate) struct Seen<'a> {
    pub(crate) tallies: &'a [Tally],
    pub(crate) locks: Vec<Losses>,
    pub(crate) counters: Vec<(&'static str, u64)>,
    /// What each vCPU recorded for a timeline; empty without one.
    pub(crate) logs: &'a [Log],
}

/// Sums a run of virtual CPUs up.
pub(crate) fn run_of(
    config: &RunConfig,
    outcome: Observed,
    Seen { tallies, locks, counters, logs }: Seen,
) -> Run {
    let seconds = outcome.ran.as_secs_f64();
    let ended_ns = outcome.ended_ns;
    let operations: Vec<u64> = tallies.iter().map(|t| value(&t.operations)).collect();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let host = |of: fn(&Accounts) -> u64| outcome.vcpus.iter().map(of).sum::<u64>();
    let share = |ns: u64| ns as f64 / 1e9 / seconds;
    let reads = sum(|t| value(&t.timer_reads)).max(1);
    let slices = host(|vcpu| vcpu.slices);
    let overrun_ns = host(|vcpu| vcpu.overrun_ns) as f64 / slices.max(1) as f64;
    let nominal_ns = config.slice.as_nanos() as f64 * slices as f64;
    let slice_ns = host(|vcpu| vcpu.slice_ns) as f64;
    let waits = Histogram::sum(tallies.iter().map(Tally::waits));
    Run {
        seconds,
        ops_per_s: operations.iter().sum::<u64>() as f64 / seconds,
        ops_per_cpu: Spread::of(&operations),
        jain: jain(&operations),
        ops: operations,
        wait_ns: WaitNs::of(&waits, largest(tallies, |t| value(&t.longest_ns)), |ns| ns),
        wait_counts: waits.counts(),
        longest_stall_ns: Some(largest(tallies, |t| t.longest_stall_ns(ended_ns))),
        cpu_s_per_s: share(host(|vcpu| vcpu.ran_ns)),
        spin_s_per_s: share(sum(|t| value(&t.spun_ns))),
        steal_s_per_s: share(host(|vcpu| vcpu.steal_ns)),
        run_delay_s_per_s: share(host(|vcpu| vcpu.run_delay_ns)),
        slices_per_s: slices as f64 / seconds,
        overrun_ns,
        slices_of_nominal: if slices == 0 { 1.0 } else { nominal_ns / slice_ns },
        wake_ns: config.wake_ns.unwrap_or(0),
        publishes: config.publishes,
        locks,
        timer_read_ns: sum(|t| value(&t.timer_ns)) as f64 / reads as f64,
        timer_cpu_s_per_s: share(sum(|t| value(&t.timer_cpu_ns))),
        timer_wait_s_per_s: share(host(|vcpu| vcpu.pm_wait_ns)),
        timer_backwards: sum(|t| value(&t.timer_backwards)),
        exits: exits(&outcome.vcpus),
        yield_hits: outcome.yields.hits,
        yields: outcome.yields.codes,
        counters: counters.into_iter().map(|(name, n)| (name.into(), n)).collect(),
        timeline: Window::of(config).map(|window| combined(window, ended_ns, &outcome.vcpus, logs)),
        vcpus: outcome.vcpus,
        ..Run::default()
    }
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn largest(tallies: &[Tally], of: impl Fn(&Tally) -> u64) -> u64 {
    tallies.iter().map(of).max().unwrap_or(0)
}

fn exits(vcpus: &[Accounts]) -> BTreeMap<Name, u64> {
    type Count = fn(&Accounts) -> u64;
    let kinds: [(&'static str, Count); 9] = [
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
    kinds.map(|(kind, of)| (kind.into(), vcpus.iter().map(of).sum())).into()
}
