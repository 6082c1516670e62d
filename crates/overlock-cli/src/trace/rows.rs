//! What was found, as records for programs.

use super::diagnosis::{advice, diagnosis};
use overlock_trace::analysis::Times;
use overlock_trace::{Class, Finding, Findings, share};
use serde_json::{Value, json};

/// Returns the records: the summary first, then each place, and each loop.
pub(crate) fn rows(found: &Findings, source: &str) -> Vec<Value> {
    let mut rows = vec![summary(found, source)];
    let total = found.report.time.total();
    rows.extend(found.rows.iter().map(|one| row(one, total)));
    rows.extend(found.loops.iter().map(|one| {
        json!({
            "kind": "trace-loop",
            "pid": one.process,
            "where": one.place,
            "samples": one.samples,
            "cpu_ns": one.samples.saturating_mul(found.report.sample_ns),
            "cpu_share": found.cpu_share(one.samples),
            "samples_while_others_starved": one.while_others_starved,
        })
    }));
    rows
}

fn summary(found: &Findings, source: &str) -> Value {
    json!({
        "kind": "trace-summary",
        "source": source,
        "diagnosis": diagnosis(found),
        "advice": advice(found),
        "cure": found.verdict.cure,
        "threads": found.report.threads,
        "elapsed_ns": found.report.elapsed_ns,
        "lock_share": found.verdict.lock_share,
        "outside_share": found.verdict.outside_share,
        "work_share": found.verdict.work_share,
        "spin_share": found.verdict.spin_share,
        "holder_ns": times(&found.verdict.holder),
        "thread_ns": times(&found.report.time),
        "samples": found.report.samples,
        "lost": found.facts.lost,
        "of_others": found.facts.others.0,
        "unkept": found.report.unkept,
        "cost": found.facts.cost,
    })
}

/// Returns the record of what threads slept for at a place.
fn row(one: &Finding, total: u64) -> Value {
    let row = &one.row;
    let enders: Vec<Value> =
        one.enders.iter().map(|(by, ns)| json!({"by": by, "ns": ns})).collect();
    let locks: Vec<String> = one.locks.iter().take(16).map(|lock| format!("{lock:#x}")).collect();
    let quantile = |quantile| row.wait_ns.quantile(quantile).min(row.longest_ns);
    let chain: Vec<Value> = one
        .followed()
        .into_iter()
        .map(|did| {
            let did = did.iter().map(|(one, ns)| {
                json!({"thread": one.thread, "threads": one.threads, "state": one.state.name(), "what": one.what,
                       "where": one.place, "ns": ns})
            });
            did.collect()
        })
        .collect();
    json!({
        "kind": match one.class {
            Class::Lock => "trace-lock",
            Class::Outside => "trace-outside",
            Class::Work => "trace-work",
        },
        "pid": one.process,
        "type": one.kind.name(),
        "what": one.what,
        "where": one.place,
        "callers": one.callers,
        "chain": chain,
        "path": one.path(),
        "share": share(row.waited_ns, total),
        "ender": one.ender().map(|(who, _)| who),
        "locks": locks,
        "locks_count": one.locks.len(),
        "waits": row.waits,
        "waited_ns": row.waited_ns,
        "is_estimate": row.looked.is_some(),
        "wait_ns": {
            "p50": quantile(0.5),
            "p99": quantile(0.99),
            "p999": quantile(0.999),
            "max": row.longest_ns,
        },
        "longest_thread": row.longest_thread,
        "longest_thread_name": one.longest_thread,
        "hold_ns": {
            "seen": row.hold_ns.count(),
            "p50": row.hold_ns.quantile(0.5),
            "p999": row.hold_ns.quantile(0.999),
        },
        "holder_ns": times(&row.holder),
        "passed_ns": row.passed_ns,
        "lost_races": row.lost,
        "timed_out": row.timed_out,
        "looks": row.looks,
        "found_free": row.found_free,
        "in_crowd": row.in_crowd,
        "for_nothing": row.for_nothing,
        "ended_by": enders,
    })
}

fn times(split: &Times) -> Value {
    split.named().iter().map(|(name, ns)| ((*name).to_owned(), json!(ns))).collect()
}
