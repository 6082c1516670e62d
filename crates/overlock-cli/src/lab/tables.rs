// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a group, each for one question.

use super::plan::{NO_POLICY, ORACLE, Point, REPORT, ROUND_ROBIN};
use super::results::{
    Asked, GroupRuns, PointRuns, Record, exits_per_s, ops_per_s, reads_per_s, timer_share,
};
use crate::stats::{self, Interval};
use crate::table::Table;
use crate::units::{count, three, time};
use overlock_world::PmTimerRule;
use overlock_world::locks::Build;

/// Returns all tables of a group; empty if nothing was measured.
pub(super) fn all(group: &GroupRuns) -> String {
    let Some(first) = group.points.first() else { return String::new() };
    let world = first.samples.first().map_or("", |sample| &sample.record.world);
    let rounds = group.points.iter().map(|runs| runs.samples.len()).min().unwrap_or(0);
    let rounds = stats::describe(rounds);
    let mut text = format!(
        "{} on {} pCPU{} of the {world} engine  ({rounds})\n",
        group.title,
        first.point.pcpus,
        if first.point.pcpus == 1 { "" } else { "s" },
    );
    if group.profile.sections > 0 {
        text += &throughput(group).to_string();
        text += &titled(
            "Operations per second of each vCPU, and acquisitions out of turn:",
            Some(fairness(group)),
        );
        text += &titled(
            "What the paravirtual build costs (off) and gains (on), over native:",
            builds(group),
        );
    }
    text += &titled(
        "Throughput over that under the policy report, which also reports spins:",
        policies(group),
    );
    text += &reasons(group);
    text += &titled("The PM timer, by the rule of its readers:", timers(group));
    text
}

fn titled(title: &str, table: Option<Table>) -> String {
    table.map_or_else(String::new, |table| format!("\n{title}\n{table}"))
}

/// A lock, and its policy if it has one.
fn name(point: &Point) -> String {
    match point.policy.as_str() {
        NO_POLICY => point.lock.name.clone(),
        policy => format!("{}, {policy}", point.lock.name),
    }
}

fn median(ratio: Option<Interval>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| three(ratio.median))
}

/// A ratio with its interval.
fn range(ratio: Option<Interval>) -> [String; 3] {
    ratio.map_or_else(|| ["-"; 3].map(Into::into), |r| [r.median, r.low, r.high].map(three))
}

fn percent(share: f64) -> String {
    format!("{} %", three(100.0 * share))
}

/// How much work is done, what it costs, and how long waits are.
fn throughput(group: &GroupRuns) -> Table {
    let mut table = Table::new(&[
        "lock",
        "vCPUs",
        "over",
        "ops/s",
        "low",
        "high",
        "of 1x",
        "of limit",
        "p50",
        "p99",
        "p99.9",
        "stall",
        "CPU/s",
        "spin/s",
        "steal/s",
        "exits/s",
        "slices/s",
        "of nominal",
    ]);
    for runs in &group.points {
        let ops = runs.interval(ops_per_s);
        let figure = |of: fn(&Record) -> f64| runs.median(of);
        table.row(vec![
            name(&runs.point),
            runs.point.cpus.to_string(),
            runs.point.overcommit(),
            count(ops.median),
            count(ops.low),
            count(ops.high),
            median(group.at_1x(&runs.point).and_then(|base| runs.over(base, ops_per_s))),
            median(group.limit(&runs.point).and_then(|limit| runs.over(limit, ops_per_s))),
            time(figure(|record| record.wait_ns.p50 as f64)),
            time(figure(|record| record.wait_ns.p99 as f64)),
            time(figure(|record| record.wait_ns.p999 as f64)),
            time(runs.worst(|record| record.longest_stall_ns as f64)),
            format!("{:.2}", figure(|record| record.cpu_s_per_s)),
            format!("{:.2}", figure(|record| record.spin_s_per_s)),
            format!("{:.2}", figure(|record| record.steal_s_per_s)),
            count(figure(exits_per_s)),
            count(figure(|record| record.slices_per_s)),
            format!("{:.2}", figure(|record| record.slices_of_nominal)),
        ]);
    }
    table
}

/// S4's table: does any vCPU starve, and how many acquisitions overtake a queue?
fn fairness(group: &GroupRuns) -> Table {
    let mut table =
        Table::new(&["lock", "vCPUs", "over", "min", "avg", "max", "min/avg", "Jain", "unfair"]);
    for runs in &group.points {
        let each = |of: fn(&Record) -> f64| runs.median(|record| of(record) / record.seconds);
        table.row(vec![
            name(&runs.point),
            runs.point.cpus.to_string(),
            runs.point.overcommit(),
            count(each(|record| record.ops_per_cpu.min as f64)),
            count(each(|record| record.ops_per_cpu.avg)),
            count(each(|record| record.ops_per_cpu.max as f64)),
            format!("{:.2}", runs.median(PointRuns::least_served)),
            format!("{:.2}", runs.median(|record| record.jain)),
            group.unfair(runs).map_or_else(|| "-".into(), percent),
        ]);
    }
    table
}

/// The same lock native, paravirtual but switched off, and paravirtual.
fn builds(group: &GroupRuns) -> Option<Table> {
    let mut table = Table::new(&[
        "lock",
        "vCPUs",
        "over",
        "native",
        "off",
        "on",
        "off/native",
        "low",
        "high",
        "on/native",
        "low",
        "high",
    ]);
    let mut rows = 0;
    let native = |runs: &&PointRuns| runs.point.lock.build() == Build::Native;
    for base in group.points.iter().filter(native) {
        let off = group.built(&base.point, Build::Off);
        let on = group.built(&base.point, Build::Paravirtual);
        if off.is_none() && on.is_none() {
            continue;
        }
        rows += 1;
        let ops = |runs: Option<&PointRuns>| {
            runs.map_or_else(|| "-".into(), |runs| count(runs.median(ops_per_s)))
        };
        let over = |runs: Option<&PointRuns>| range(runs.and_then(|r| r.over(base, ops_per_s)));
        let point = Point { lock: on.or(off)?.point.lock.clone(), ..base.point.clone() };
        let mut row = vec![name(&point), point.cpus.to_string(), point.overcommit()];
        row.extend([ops(Some(base)), ops(off), ops(on)]);
        row.extend(over(off));
        row.extend(over(on));
        table.row(row);
    }
    (rows > 0).then_some(table)
}

/// The gains of the yield policies, and how often they were right.
fn policies(group: &GroupRuns) -> Option<Table> {
    let mut table = Table::new(&[
        "lock, policy",
        "vCPUs",
        "over",
        "of report",
        "low",
        "high",
        "of none",
        "of robin",
        "of oracle",
        "asked/s",
        "yielded",
        "right",
    ]);
    let mut rows = 0;
    for runs in group.points.iter().filter(|runs| runs.point.policy != NO_POLICY) {
        rows += 1;
        let point = &runs.point;
        let over = |policy: &str| runs.over(group.under(point, policy)?, ops_per_s);
        let asked = runs.asked();
        let share = |part: f64| match asked.times {
            0.0 => "-".into(),
            times => percent(part / times),
        };
        let mut row = vec![name(point), point.cpus.to_string(), point.overcommit()];
        row.extend(range(over(REPORT)));
        row.push(median(over(NO_POLICY)));
        row.extend([median(over(ROUND_ROBIN)), median(over(ORACLE))]);
        row.push(count(asked.times / runs.seconds()));
        row.extend([share(asked.yielded), share(asked.hits)]);
        table.row(row);
    }
    (rows > 0).then_some(table)
}

/// The smallest share that is shown; `--explain` and the records have them all.
const TOLD: f64 = 0.01;

/// The outcome of each spin, by reason code; empty without policies.
fn reasons(group: &GroupRuns) -> String {
    let mut table = Table::new(&["lock, policy", "vCPUs", "over"]);
    let mut reasons = vec!["the outcome, and why".to_owned()];
    for runs in group.points.iter().filter(|runs| runs.point.policy != NO_POLICY) {
        let point = &runs.point;
        let Asked { times, .. } = runs.asked();
        let kinds = ["directed", "plain", "stayed"].into_iter().filter_map(|kind| {
            let told = |(why, count): (String, u64)| {
                let share = count as f64 / times;
                (share >= TOLD).then(|| format!("{why} {}", percent(share)))
            };
            let told: Vec<String> = runs.reasons(kind).into_iter().filter_map(told).collect();
            (!told.is_empty()).then(|| format!("{kind}: {}", told.join(", ")))
        });
        let kinds: Vec<String> = kinds.collect();
        table.row(vec![name(point), point.cpus.to_string(), point.overcommit()]);
        reasons.push(if kinds.is_empty() { "never asked".into() } else { kinds.join("; ") });
    }
    if reasons.len() == 1 {
        return String::new();
    }
    let rows: Vec<String> = table.to_string().lines().map(str::to_owned).collect();
    let rows = rows.iter().zip(&reasons).map(|(row, why)| format!("{row}  {why}\n"));
    format!("\nYields by reason code, as shares of the requests:\n{}", rows.collect::<String>())
}

/// S5's question: how long do reads of the timer take, and what does each rule gain?
fn timers(group: &GroupRuns) -> Option<Table> {
    let mut table = Table::new(&[
        "rule",
        "vCPUs",
        "over",
        "reads/s",
        "low",
        "high",
        "of mutex",
        "low",
        "high",
        "read",
        "in reads",
        "backwards",
    ]);
    for runs in &group.points {
        let reads = runs.interval(reads_per_s);
        let mutex = group.with_timer(&runs.point, PmTimerRule::Mutex);
        let rule = runs.point.timer.name().to_owned();
        let mut row = vec![rule, runs.point.cpus.to_string(), runs.point.overcommit()];
        row.extend([reads.median, reads.low, reads.high].map(count));
        row.extend(range(mutex.and_then(|mutex| runs.over(mutex, reads_per_s))));
        row.push(time(runs.median(|record| record.timer_read_ns)));
        row.push(percent(runs.median(timer_share)));
        row.push(three(runs.worst(|record| record.timer_backwards as f64)));
        table.row(row);
    }
    (group.profile.timer_reads > 0).then_some(table)
}
