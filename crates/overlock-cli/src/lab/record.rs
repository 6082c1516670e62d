// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of one point: the fields that all worlds have, and those that only a host knows.

use super::args::MeasureArgs;
use super::explain;
use super::plan::{NO_POLICY, ORACLE, Point, REPORT};
use super::results::{Asked, GroupRuns, PointRuns, Sample, ops_per_s};
use crate::record::{Spread, Waits, merged};
use crate::stats::{self, Interval};
use crate::units::three;
use overlock_world::experiment::Published;
use overlock_world::locks::Build;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One lock under one policy at one overcommit.
#[derive(Debug, Serialize)]
pub(super) struct LabRecord<'a> {
    kind: &'static str,
    world: &'a str,
    workload: &'a str,
    lock: &'a str,
    policy: &'a str,
    cpus: u32,
    pcpus: u32,
    cs_ns: u64,
    ncs_ns: u64,
    /// The requested share of the hand-over limit; absent if it did not choose the work between
    /// critical sections.
    contention: Option<f64>,
    seconds: f64,
    samples: &'a [Sample],
    ops_per_s: Interval,
    ops_per_cpu: Spread,
    jain: f64,
    wait_ns: Waits,
    /// Waits of all rounds by length: see [`merged`].
    wait_counts: Vec<(u64, u64)>,
    longest_stall_ns: u64,
    cpu_s_per_s: f64,
    /// Events in the lock, of all rounds together; the same holds for exits and yields.
    counters: BTreeMap<String, u64>,
    /// Probability that an interval of this record covers its true median.
    interval_coverage: f64,
    /// Share of the machine's CPU time that its own hypervisor took away.
    steal: f64,
    /// Whether the lock could halt: false for native ones, and for those switched off.
    paravirtual: bool,
    /// The rule for sharing the PM timer; absent if no vCPU read it.
    timer: Option<&'static str>,
    slice_ns: u64,
    pause_window_ns: u64,
    /// How often running vCPUs were checked for spinning; 0 means never.
    sample_ns: u64,
    grace_ns: u64,
    /// Throughput over that of the same with one vCPU for each pCPU, by rounds.
    of_1x: Option<Interval>,
    /// Throughput over that of the same without a yield policy, by rounds.
    of_none: Option<Interval>,
    /// Throughput over that of the same where vCPUs report spins and none yields, by rounds.
    of_report: Option<Interval>,
    /// Throughput over that of the same under the policy that always knows, by rounds.
    of_oracle: Option<Interval>,
    /// Throughput over that of the native build of the same lock, by rounds.
    of_native: Option<Interval>,
    /// Throughput over the best that a lock in strict order could do, by rounds.
    of_limit: Option<Interval>,
    /// CPU seconds in a second that were spent waiting for locks.
    spin_s_per_s: f64,
    /// Seconds in a second for which vCPUs were ready without a pCPU, all together.
    steal_s_per_s: f64,
    /// Seconds in a second for which vCPUs had a pCPU, but the system gave their threads no CPU.
    run_delay_s_per_s: f64,
    /// Slices per second that ended with a preemption, and their nominal length over their actual
    /// length.
    slices_per_s: f64,
    slices_of_nominal: f64,
    /// The measured time of a halt, a kick and a wake-up.
    wake_ns: u64,
    /// Whether locks published their holder and waiters.
    publishes: bool,
    /// The share of acquisitions that overtook a queue; absent for locks that never do.
    unfair_share: Option<f64>,
    exits: BTreeMap<String, u64>,
    yields: BTreeMap<String, u64>,
    /// Yields that went to the vCPU that was waited for.
    yield_hits: u64,
    #[serde(skip)]
    asked: Asked,
    /// Time of one read; absent if no vCPU read it.
    timer_read_ns: Option<Interval>,
    timer_backwards: u64,
    /// With --explain: where the time went, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explanation: Vec<String>,
}

/// A figure that others have published, beside ours.
#[derive(Debug, Serialize)]
pub(super) struct Beside<'a> {
    kind: &'static str,
    #[serde(flatten)]
    published: &'a Published,
    /// Our figure: a number, or an interval; nothing if there is no figure of that name.
    ours: Option<Value>,
}

impl<'a> Beside<'a> {
    /// Finds the figure of that name in the record of a point.
    pub(super) fn new(published: &'a Published, record: &Value) -> Self {
        let ours = record.get(&published.figure).filter(|value| !value.is_null()).cloned();
        Beside { kind: "published", published, ours }
    }
}

impl std::fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Published { lock, policy, cpus, figure, value, source, .. } = self.published;
        let ours = match &self.ours {
            Some(Value::Object(interval)) => {
                let part = |name: &str| interval.get(name).and_then(Value::as_f64).map(three);
                let [median, low, high] =
                    ["median", "low", "high"].map(|n| part(n).unwrap_or_default());
                format!("{median} ({low}..{high})")
            }
            Some(number) => number.as_f64().map_or_else(|| number.to_string(), three),
            None => "not measured here".into(),
        };
        let value = value.map_or_else(|| "nothing".into(), three);
        writeln!(
            f,
            "{figure} of {lock}, {policy}, {cpus} vCPUs: published {value} ({source}); ours {ours}"
        )
    }
}

/// Returns whether a published figure is about this point.
pub(super) fn is_of(published: &Published, point: &Point) -> bool {
    (&published.lock, &published.policy, published.cpus)
        == (&point.lock.name, &point.policy, point.cpus)
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

impl<'a> LabRecord<'a> {
    /// Merges the runs of a point.
    pub(super) fn new(group: &'a GroupRuns, runs: &'a PointRuns, args: &MeasureArgs) -> Self {
        let (point, profile) = (&runs.point, &group.profile);
        let asked = point.policy != NO_POLICY;
        let reads = profile.timer_reads > 0;
        let over = |other: Option<&PointRuns>| runs.over(other?, ops_per_s);
        let total = |of: fn(&Sample) -> u64| runs.samples.iter().map(of).sum();
        LabRecord {
            kind: "point",
            world: runs.samples.first().map_or("", |sample| &sample.record.world),
            workload: &profile.name,
            lock: &point.lock.name,
            policy: &point.policy,
            cpus: point.cpus,
            pcpus: point.pcpus,
            cs_ns: profile.section_ns,
            ncs_ns: profile.think_ns,
            contention: group.contention,
            seconds: runs.median(|record| record.seconds),
            samples: &runs.samples,
            ops_per_s: runs.interval(ops_per_s),
            ops_per_cpu: Spread {
                min: whole(runs.median(|record| record.ops_per_cpu.min as f64)),
                avg: runs.median(|record| record.ops_per_cpu.avg),
                max: whole(runs.median(|record| record.ops_per_cpu.max as f64)),
            },
            jain: runs.median(|record| record.jain),
            wait_ns: Waits {
                p50: whole(runs.median(|record| record.wait_ns.p50 as f64)),
                p99: whole(runs.median(|record| record.wait_ns.p99 as f64)),
                p999: whole(runs.median(|record| record.wait_ns.p999 as f64)),
                max: whole(runs.worst(|record| record.wait_ns.max as f64)),
            },
            wait_counts: merged(runs.samples.iter().map(|s| &s.record.wait_counts[..])),
            longest_stall_ns: whole(runs.worst(|record| record.longest_stall_ns as f64)),
            cpu_s_per_s: runs.median(|record| record.cpu_s_per_s),
            counters: runs.sums(|record| &record.counters),
            interval_coverage: stats::coverage(runs.samples.len()),
            steal: runs.machine_steal(),
            paravirtual: point.lock.paravirtual,
            timer: reads.then(|| point.timer.name()),
            slice_ns: args.slice.0,
            pause_window_ns: if asked { args.pause_window.0 } else { 0 },
            sample_ns: if asked { args.sample.0 } else { 0 },
            grace_ns: args.grace.0,
            of_1x: over(group.at_1x(point)),
            of_none: over(group.under(point, NO_POLICY)),
            of_report: over(group.under(point, REPORT)),
            of_oracle: over(group.under(point, ORACLE)),
            of_native: over(group.built(point, Build::Native)),
            of_limit: over(group.limit(point)),
            spin_s_per_s: runs.median(|record| record.spin_s_per_s),
            steal_s_per_s: runs.median(|record| record.steal_s_per_s),
            run_delay_s_per_s: runs.median(|record| record.run_delay_s_per_s),
            slices_per_s: runs.median(|record| record.slices_per_s),
            slices_of_nominal: runs.median(|record| record.slices_of_nominal),
            wake_ns: whole(runs.median(|record| record.wake_ns as f64)),
            publishes: runs.samples.iter().any(|sample| sample.record.publishes),
            unfair_share: group.unfair(runs),
            exits: runs.sums(|record| &record.exits),
            yields: runs.yields(),
            yield_hits: total(|sample| sample.record.yield_hits),
            asked: runs.asked(),
            timer_read_ns: reads.then(|| runs.interval(|record| record.timer_read_ns)),
            timer_backwards: total(|sample| sample.record.timer_backwards),
            explanation: if args.explain { explain::sentences(group, runs) } else { Vec::new() },
        }
    }

    /// Formats the same for a spreadsheet, without samples and the locks' own counters.
    pub(super) fn csv(&self) -> Vec<String> {
        let number = |value: f64| format!("{value:.4}");
        let ratio = |value: Option<Interval>| value.map_or_else(String::new, |v| number(v.median));
        let mut fields =
            [self.world, self.workload, self.lock, self.policy].map(str::to_owned).to_vec();
        fields.push(self.timer.unwrap_or_default().to_owned());
        fields.extend([self.cpus, self.pcpus].map(|n| n.to_string()));
        fields.extend([self.cs_ns, self.ncs_ns].map(|n| n.to_string()));
        let ops = self.ops_per_s;
        fields.extend([ops.median, ops.low, ops.high].map(|ops| format!("{ops:.0}")));
        let ratios = [self.of_1x, self.of_none, self.of_report, self.of_native, self.of_limit];
        fields.extend(ratios.map(ratio));
        let spread = self.ops_per_cpu;
        fields.extend([
            spread.min.to_string(),
            format!("{:.1}", spread.avg),
            spread.max.to_string(),
        ]);
        fields.push(number(self.jain));
        let waits = self.wait_ns;
        fields.extend(
            [waits.p50, waits.p99, waits.p999, waits.max, self.longest_stall_ns]
                .map(|nanos| nanos.to_string()),
        );
        fields.extend([self.cpu_s_per_s, self.spin_s_per_s, self.steal_s_per_s].map(number));
        fields.push(self.unfair_share.map_or_else(String::new, number));
        fields.push(ratio(self.timer_read_ns));
        let exits = EXITS.map(|kind| self.exits.get(kind).copied().unwrap_or(0));
        fields.extend(exits.map(|count| count.to_string()));
        let Asked { times, yielded, hits } = self.asked;
        fields.extend([times, yielded, hits].map(|count| whole(count).to_string()));
        let reasons: Vec<String> =
            self.yields.iter().map(|(code, count)| format!("{code}={count}")).collect();
        fields.push(reasons.join(";"));
        fields
    }
}

/// The reasons why vCPUs left the guest, as the laboratory names them.
const EXITS: [&str; 9] = [
    "halt",
    "kick",
    "interrupt",
    "long-spin",
    "yield",
    "end-of-grace",
    "eviction",
    "preemption",
    "pm-timer",
];

/// The names of the fields of [`LabRecord::csv`]. Exits and yields are those of all rounds
/// together; a preemption is also an eviction.
pub(super) fn csv_header() -> Vec<String> {
    let names = "world,workload,lock,policy,timer,cpus,pcpus,cs_ns,ncs_ns,ops_per_s,ops_low,\
                 ops_high,of_1x,of_none,of_report,of_native,of_limit,min_per_cpu,avg_per_cpu,max_per_cpu,\
                 jain,wait_p50_ns,wait_p99_ns,wait_p999_ns,wait_max_ns,longest_stall_ns,cpu_s_per_s,\
                 spin_s_per_s,steal_s_per_s,unfair_share,timer_read_ns";
    let exits = EXITS.map(|kind| format!("exits_{}", kind.replace('-', "_")));
    let yields = ["asked", "yielded", "right", "yields_by_reason"].map(str::to_owned);
    [names.to_owned()].into_iter().chain(exits).chain(yields).collect()
}
