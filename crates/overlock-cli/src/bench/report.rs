// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables and records at the end of a benchmark.

use super::grid::{Phase, Point};
use super::results::{LockRuns, PointRuns, Results};
use super::summary;
use super::{advice, explain};
use crate::output::Sink;
use crate::record::{PointRecord, Spread, Waits, merged};
use crate::stats::{self, Interval};
use crate::table::Table;
use crate::units::{count, three, time};
use anyhow::Result;
use overlock_bench::RunSample;
use std::collections::BTreeMap;

const CSV_HEADER: &str = "lock,threads,cs_ns,ncs_ns,ops_per_s,ops_low,ops_high,of_best_peer,jain,\
wait_p50_ns,wait_p99_ns,wait_p999_ns,wait_max_ns,longest_stall_ns,cpu_s_per_s,floor_ns,lengths,\
locks_count,then_cs_ns,then_ncs_ns,uneven";

/// Reports one finished point; for people as a row or as a table.
pub(crate) fn point(
    runs: &PointRuns,
    results: &Results,
    rows: bool,
    sink: &mut Sink,
) -> Result<()> {
    if results.points.is_empty() {
        sink.csv(&[CSV_HEADER.to_owned()])?;
    }
    for lock in runs.ranked() {
        let record = record(runs, lock, results);
        sink.record(&record)?;
        sink.csv(&csv(&record, runs))?;
    }
    let explained = explain::all(runs);
    explained.iter().try_for_each(|lock| sink.record(lock))?;
    if !explained.is_empty() {
        sink.people(&format!("{}\n{}", table(runs), explain::table(runs, &explained)))?;
        return Ok(());
    }
    sink.people(&if rows { row(runs, results.points.is_empty()) } else { table(runs) })
}

/// Formats one line for a point, with a header before the first one: the shares of the best peer.
fn row(runs: &PointRuns, is_first: bool) -> String {
    let (mut header, mut line) = (String::new(), String::new());
    let mut cell = |name: &str, text: String, width: usize| {
        header += &format!("{name:>width$}");
        line += &format!("{text:>width$}");
    };
    let point = runs.point;
    cell("threads", point.threads.to_string(), 9);
    cell("cs", point.cs.to_string(), 9);
    cell("ncs", point.ncs.to_string(), 9);
    cell("floor", time(runs.floor_ns), 9);
    let best = runs.best_peer().map_or(0.0, LockRuns::ops_per_s);
    cell("best/s", count(best), 8);
    cell("best peer", runs.best_peer().map_or("-", |peer| peer.lock.name).to_owned(), 18);
    for lock in &runs.locks {
        let ratio = runs.of_best_peer(lock).and_then(|ratios| stats::median(&ratios));
        let text = ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
        cell(lock.lock.name, text, lock.lock.name.len().max(4) + 2);
    }
    let line = format!("{line}  {}", point.shape());
    if is_first { format!("Share of the best peer's throughput\n{header}\n{line}") } else { line }
}

/// Builds the record of one lock at one point.
fn record<'a>(
    runs: &'a PointRuns,
    lock: &'a LockRuns,
    results: &Results,
) -> PointRecord<'a, RunSample> {
    let ops = |pick: fn(&[u64]) -> u64| whole(lock.median(|sample| pick(&sample.ops) as f64));
    let average =
        lock.median(|sample| sample.ops.iter().sum::<u64>() as f64 / sample.ops.len() as f64);
    PointRecord {
        kind: "point",
        world: "threads",
        workload: "micro",
        lock: lock.lock.name,
        policy: "none",
        cpus: runs.point.threads,
        pcpus: results.machine.cpus,
        cs_ns: runs.point.cs.0,
        ncs_ns: runs.point.ncs.0,
        seconds: lock.median(|sample| sample.seconds),
        samples: &lock.samples,
        ops_per_s: interval(lock),
        ops_per_cpu: Spread {
            min: ops(|ops| ops.iter().copied().min().unwrap_or(0)),
            avg: average,
            max: ops(|ops| ops.iter().copied().max().unwrap_or(0)),
        },
        jain: lock.jain(),
        wait_ns: Waits {
            p50: whole(lock.median(|sample| sample.wait_p50_ns)),
            p99: whole(lock.median(|sample| sample.wait_p99_ns)),
            p999: whole(lock.median(|sample| sample.wait_p999_ns)),
            max: whole(lock.worst(|sample| sample.wait_max_ns)),
        },
        wait_counts: merged(lock.samples.iter().map(|sample| &sample.wait_counts[..])),
        longest_stall_ns: whole(lock.longest_stall_ns()),
        cpu_s_per_s: lock.median(|sample| sample.cpu_s_per_s),
        counters: counters(lock),
        interval_coverage: stats::coverage(lock.samples.len()),
        of_best_peer: runs.of_best_peer(lock).and_then(|ratios| Interval::of(&ratios)),
        best_peer: runs.best_peer().map(|peer| peer.lock.name),
        floor_ns: Some(runs.floor_ns),
        lengths: Some(runs.point.lengths),
        locks_count: Some(runs.point.locks),
        then_ns: runs.point.then.map(|Phase { cs, ncs }| [cs.0, ncs.0]),
        uneven: Some(runs.point.uneven),
        long_stalls: lock.samples.iter().map(|sample| sample.long_stalls).sum(),
        steal: lock.steal().steal_share(),
    }
}

/// Sums the events of all rounds.
fn counters(lock: &LockRuns) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (event, count) in lock.samples.iter().flat_map(|sample| &sample.counters) {
        *sums.entry(event.clone()).or_default() += count;
    }
    sums
}

fn interval(lock: &LockRuns) -> Interval {
    let none = Interval { median: 0.0, low: 0.0, high: 0.0 };
    Interval::of(&lock.each(|sample| sample.ops_per_s)).unwrap_or(none)
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn csv(record: &PointRecord<'_, RunSample>, runs: &PointRuns) -> Vec<String> {
    let ratio = record.of_best_peer.map_or_else(String::new, |ratio| three(ratio.median));
    let ops = record.ops_per_s;
    let mut fields = vec![record.lock.to_owned()];
    fields.extend([record.cpus as u64, record.cs_ns, record.ncs_ns].map(|n| n.to_string()));
    fields.extend([ops.median, ops.low, ops.high].map(|ops| format!("{ops:.0}")));
    fields.extend([ratio, format!("{:.4}", record.jain)]);
    let waits = record.wait_ns;
    fields.extend(
        [waits.p50, waits.p99, waits.p999, waits.max, record.longest_stall_ns]
            .map(|nanos| nanos.to_string()),
    );
    fields.push(format!("{:.3}", record.cpu_s_per_s));
    let Point { lengths, locks, then, uneven, .. } = runs.point;
    let then = then.map(|Phase { cs, ncs }| [cs.0, ncs.0].map(|nanos| nanos.to_string()));
    fields.extend([format!("{:.2}", runs.floor_ns), lengths.to_string(), locks.to_string()]);
    fields.extend(then.unwrap_or_default());
    fields.push(uneven.to_string());
    fields
}

/// The ranked table of one point.
fn table(runs: &PointRuns) -> String {
    let rounds = runs.locks.first().map_or(0, |lock| lock.samples.len());
    let mut table = Table::new(&[
        "lock", "ops/s", "low", "high", "of best", "Jain", "p50", "p99", "p99.9", "stall", "CPU/s",
    ]);
    for lock in runs.ranked() {
        let ops = interval(lock);
        let ratio = runs.of_best_peer(lock).and_then(|ratios| stats::median(&ratios));
        table.row(vec![
            lock.lock.name.to_owned(),
            count(ops.median),
            count(ops.low),
            count(ops.high),
            ratio.map_or_else(|| "-".into(), three),
            format!("{:.2}", lock.jain()),
            time(lock.median(|sample| sample.wait_p50_ns)),
            time(lock.median(|sample| sample.wait_p99_ns)),
            time(lock.median(|sample| sample.wait_p999_ns)),
            time(lock.longest_stall_ns()),
            format!("{:.2}", lock.median(|sample| sample.cpu_s_per_s)),
        ]);
    }
    let floor = time(runs.floor_ns);
    format!("{}  ({}; floor {floor})\n{table}", runs.point, stats::describe(rounds))
}

/// Prints the result of the whole benchmark: one line for each lock, failures, and the advice.
pub(crate) fn finish(results: &Results, sink: &mut Sink) -> Result<()> {
    let summaries = summary::of(results);
    if !summaries.is_empty() {
        let mut table = Table::new(&[
            "lock",
            "of best peer",
            "low",
            "high",
            "worst",
            "pair",
            "Jain",
            "Jain<=16",
            "p99.9/pl",
            "stall/pl",
            "stall",
            "worst point",
        ]);
        let ratio = |value: Option<f64>| value.map_or_else(|| "-".into(), three);
        for line in &summaries {
            sink.record(line)?;
            table.row(vec![
                line.lock.to_owned(),
                ratio(line.of_best_peer.map(|ratio| ratio.median)),
                ratio(line.of_best_peer.map(|ratio| ratio.low)),
                ratio(line.of_best_peer.map(|ratio| ratio.high)),
                ratio(line.worst.as_ref().map(|worst| worst.ratio)),
                line.pair_ns.map_or_else(|| "-".into(), time),
                format!("{:.2}", line.worst_jain),
                format!("{:.2}", line.calm_jain),
                ratio(line.p999_of_parking_lot),
                ratio(line.stall_of_parking_lot),
                time(line.longest_stall_ns),
                line.worst.as_ref().map_or_else(String::new, |worst| worst.point.clone()),
            ]);
        }
        sink.people(&format!(
            "Summary: geometric mean over all points ({}); pair is an uncontended lock and \
             unlock;\nJain is the worst, then the worst of the points with up to 16 threads;\n\
             p99.9/pl and stall/pl are over parking-lot's, where threads compete\n{table}",
            results.points.len()
        ))?;
    }
    for failure in &results.failures {
        sink.record(failure)?;
        crate::output::complain(&format!("failed: {}", failure.sentence));
    }
    if let Some(advice) = advice::advice(results, &summaries) {
        sink.record(&advice)?;
        sink.people(&advice.sentence)?;
    }
    Ok(())
}
