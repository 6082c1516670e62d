// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results: records in the form that all worlds share, and tables.

use super::said::Sample;
use crate::record::{Spread, Waits};
use crate::stats::{self, Interval};
use crate::table::Table;
use crate::units::{count, three, time};
use serde::Serialize;
use std::collections::BTreeMap;

/// All runs of one lock with one number of CPUs; one run a round.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) lock: String,
    pub(super) cpus: u32,
    pub(super) samples: Vec<Sample>,
}

/// What all runs have in common.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) world: &'static str,
    pub(super) pcpus: u32,
    pub(super) cs_ns: u64,
    pub(super) ncs_ns: u64,
}

/// One lock at one number of CPUs.
#[derive(Debug, Serialize)]
pub(super) struct BootRecord<'a> {
    kind: &'static str,
    world: &'static str,
    workload: &'static str,
    lock: &'a str,
    policy: &'static str,
    cpus: u32,
    pcpus: u32,
    cs_ns: u64,
    ncs_ns: u64,
    seconds: f64,
    samples: &'a [Sample],
    ops_per_s: Interval,
    ops_per_cpu: Spread,
    jain: f64,
    wait_ns: Waits,
    longest_stall_ns: u64,
    /// Events in the lock and in the platform, of all rounds together.
    counters: BTreeMap<String, u64>,
    interval_coverage: f64,
    /// Throughput over that of the native build of the same lock, by rounds.
    of_native: Option<Interval>,
    /// Throughput over that of the native ticket lock, by rounds.
    of_native_ticket: Option<Interval>,
    /// Seconds in a second that vCPUs were ready without a processor, all together.
    steal_s_per_s: f64,
    /// Updates under the lock that were lost: must be 0.
    lost: u64,
}

const NO_TIME: Interval = Interval { median: 0.0, low: 0.0, high: 0.0 };

impl Runs {
    fn each(&self, figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        stats::median(&self.each(figure)).unwrap_or(0.0)
    }

    fn interval(&self) -> Interval {
        Interval::of(&self.each(Sample::ops_per_s)).unwrap_or(NO_TIME)
    }

    fn sum(&self, event: &str) -> u64 {
        self.samples.iter().map(|sample| sample.counted(event)).sum()
    }

    fn jain(sample: &Sample) -> f64 {
        overlock_world::stats::jain(&sample.ops)
    }

    pub(super) fn lost(&self) -> u64 {
        self.samples.iter().map(|sample| sample.lost).sum()
    }

    /// Kicks that arrived although no CPU had sent them: must be 0. (Two that are sent before
    /// either is taken arrive as one.)
    pub(super) fn unsent(&self) -> u64 {
        (self.sum("kicked") + self.sum("stale")).saturating_sub(self.sum("kicks"))
    }

    /// Throughput over that of `base`, round by round.
    fn over(&self, base: &Self) -> Option<Interval> {
        let base = |round| base.samples.iter().find(|sample| sample.round == round);
        let ratio = |sample: &Sample| Some(sample.ops_per_s() / base(sample.round)?.ops_per_s());
        Interval::of(&self.samples.iter().filter_map(ratio).collect::<Vec<_>>())
    }

    /// Throughput over that of the lock called `name` with as many CPUs, if that is another.
    pub(super) fn over_lock(&self, all: &[Self], name: &str) -> Option<Interval> {
        let same = |runs: &&Self| runs.cpus == self.cpus && runs.lock == name;
        (self.lock != name).then(|| self.over(all.iter().find(same)?)).flatten()
    }

    pub(super) fn record<'a>(&'a self, all: &[Self], setting: &Setting) -> BootRecord<'a> {
        let whole = |of: fn(&Waits) -> u64| self.median(|s| of(&s.wait_ns) as f64).round() as u64;
        let longest = self.samples.iter().map(|sample| sample.wait_ns.max).max().unwrap_or(0);
        let mut counters = BTreeMap::new();
        for (event, count) in self.samples.iter().flat_map(|sample| &sample.counters) {
            *counters.entry(event.clone()).or_insert(0) += count;
        }
        let ops = |of: fn(&[u64]) -> Option<u64>| {
            self.median(|sample| of(&sample.ops).unwrap_or(0) as f64).round() as u64
        };
        BootRecord {
            kind: "point",
            world: setting.world,
            workload: "micro",
            lock: &self.lock,
            policy: "none",
            cpus: self.cpus,
            pcpus: setting.pcpus,
            cs_ns: setting.cs_ns,
            ncs_ns: setting.ncs_ns,
            seconds: self.median(Sample::seconds),
            samples: &self.samples,
            ops_per_s: self.interval(),
            ops_per_cpu: Spread {
                min: ops(|ops| ops.iter().min().copied()),
                avg: self.median(|s| s.ops.iter().sum::<u64>() as f64 / s.ops.len().max(1) as f64),
                max: ops(|ops| ops.iter().max().copied()),
            },
            jain: self.median(Self::jain),
            wait_ns: Waits {
                p50: whole(|waits| waits.p50),
                p99: whole(|waits| waits.p99),
                p999: whole(|waits| waits.p999),
                max: longest,
            },
            longest_stall_ns: longest,
            counters,
            interval_coverage: stats::coverage(self.samples.len()),
            of_native: self.over_lock(all, &format!("native-{}", self.lock)),
            of_native_ticket: self.over_lock(all, "native-ticket"),
            steal_s_per_s: self.median(|s| s.stolen_ns as f64 / s.ns.max(1) as f64),
            lost: self.lost(),
        }
    }
}

impl BootRecord<'_> {
    /// The same for a spreadsheet, without samples and counters.
    pub(super) fn csv(&self) -> Vec<String> {
        let (ops, lost) = (format!("{:.0}", self.ops_per_s.median), self.lost.to_string());
        let [cpus, pcpus] = [self.cpus, self.pcpus].map(|n| n.to_string());
        vec![self.world.to_owned(), self.lock.to_owned(), cpus, pcpus, ops, lost]
    }
}

/// Groups samples by lock and number of CPUs.
pub(super) fn gather(samples: Vec<Sample>) -> Vec<Runs> {
    let mut all: Vec<Runs> = Vec::new();
    for sample in samples {
        let (lock, cpus) = (sample.lock.clone(), sample.cpus);
        match all.iter_mut().find(|runs| runs.lock == lock && runs.cpus == cpus) {
            Some(runs) => runs.samples.push(sample),
            None => all.push(Runs { lock, cpus, samples: vec![sample] }),
        }
    }
    all.sort_by(|a, b| (a.cpus, &a.lock).cmp(&(b.cpus, &b.lock)));
    all
}

/// The tables: throughput and waiting times; waits and kicks by outcome.
pub(super) fn tables(all: &[Runs]) -> String {
    let median = |ratio: Option<Interval>| ratio.map_or_else(|| "-".into(), |r| three(r.median));
    let mut done = Table::new(&[
        "lock",
        "CPUs",
        "ops/s",
        "low",
        "high",
        "of native",
        "of n. ticket",
        "Jain",
        "p50",
        "p99",
        "p99.9",
        "stall",
        "steal/s",
    ]);
    let mut waits = Table::new(&[
        "lock",
        "CPUs",
        "ops",
        "halts",
        "kicked",
        "overdue",
        "stray",
        "early",
        "kicks",
        "stale",
        "futile",
        "halts/op",
        "stolen turns",
    ]);
    for runs in all {
        let ops = runs.interval();
        let wait = |of: fn(&Waits) -> u64| time(runs.median(|s| of(&s.wait_ns) as f64));
        done.row(vec![
            runs.lock.clone(),
            runs.cpus.to_string(),
            count(ops.median),
            count(ops.low),
            count(ops.high),
            median(runs.over_lock(all, &format!("native-{}", runs.lock))),
            median(runs.over_lock(all, "native-ticket")),
            format!("{:.2}", runs.median(Runs::jain)),
            wait(|waits| waits.p50),
            wait(|waits| waits.p99),
            wait(|waits| waits.p999),
            time(runs.samples.iter().map(|s| s.wait_ns.max).max().unwrap_or(0) as f64),
            format!("{:.2}", runs.median(|s| s.stolen_ns as f64 / s.ns.max(1) as f64)),
        ]);
        let count_of = |event| runs.sum(event).to_string();
        let total: u64 = runs.samples.iter().flat_map(|sample| &sample.ops).sum();
        waits.row(vec![
            runs.lock.clone(),
            runs.cpus.to_string(),
            total.to_string(),
            count_of("halts"),
            count_of("kicked"),
            count_of("overdue"),
            count_of("stray"),
            count_of("early"),
            count_of("kicks"),
            count_of("stale"),
            count_of("futile"),
            three(runs.sum("halts") as f64 / total.max(1) as f64),
            runs.sum("pv_lock_stealing").to_string(),
        ]);
    }
    format!(
        "{done}\nWaits and kicks by outcome, all rounds together:\n{waits}\n\
         halts (polls under Xen) end by a kick, by their deadline (overdue), or otherwise (stray). \
         early: the\nword had changed before the halt. stale: a kick found by a later wait. futile: \
         halts that ended with\nthe word as it was.\n"
    )
}
