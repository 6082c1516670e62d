// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, as records for programs.

use super::diagnosis::diagnosis;
use overlock_results::row::TimelineRow;
use overlock_trace::{Class, HolderNs};
use overlock_tracer::{Finding, Findings, Stint, Window};
use serde_json::{Value, json};

/// Returns the records: the summary first, then each lock, and each loop.
pub(crate) fn rows(found: &Findings, source: &str) -> Vec<Value> {
    let mut rows = vec![summary(found, source)];
    rows.extend(found.waits.iter().map(wait));
    rows.extend(found.loops.iter().map(|one| {
        json!({
            "kind": "trace-loop",
            "pid": one.process,
            "where": one.place,
            "samples": one.samples,
            "cpu_ns": one.samples.saturating_mul(found.report.sample_ns),
            "cpu_share": found.cpu_share(one),
            "samples_while_others_starved": one.while_others_starved,
        })
    }));
    rows
}

fn summary(found: &Findings, source: &str) -> Value {
    let time = &found.report.time;
    json!({
        "kind": "trace-summary",
        "source": source,
        "diagnosis": diagnosis(found),
        "cure": found.verdict.cure.name(),
        "threads": found.report.threads,
        "elapsed_ns": found.report.elapsed_ns,
        "lock_share": found.verdict.lock_share,
        "work_share": found.verdict.work_share,
        "spin_share": found.verdict.spin_share,
        "holder_ns": holder(&found.verdict.holder),
        "thread_ns": {
            "running": time.running,
            "preempted": time.preempted,
            "throttled": time.throttled,
            "blocked": time.blocked,
            "waiting": time.waiting,
            "unknown": time.unknown,
        },
        "samples": found.report.samples,
        "lost": found.lost,
        "unkept": found.report.unkept,
    })
}

fn wait(one: &Finding) -> Value {
    let waits = &one.waits;
    let blocked: Vec<Value> =
        one.blocked_in.iter().map(|(what, ns)| json!({"in": what, "ns": ns})).collect();
    let locks: Vec<String> = one.locks.iter().take(16).map(|lock| format!("{lock:#x}")).collect();
    json!({
        "kind": if one.class == Class::Lock { "trace-lock" } else { "trace-work" },
        "pid": one.process,
        "type": one.kind.name(),
        "where": one.place,
        "locks": locks,
        "locks_count": one.locks.len(),
        "waits": waits.waits,
        "waited_ns": waits.waited_ns,
        "wait_ns": {
            "p50": waits.wait_ns.value_at_quantile(0.5),
            "p99": waits.wait_ns.value_at_quantile(0.99),
            "p999": waits.wait_ns.value_at_quantile(0.999),
            "max": waits.longest_ns,
        },
        "longest_thread": waits.longest_thread,
        "hold_ns": {
            "seen": waits.hold_ns.len(),
            "p50": waits.hold_ns.value_at_quantile(0.5),
            "p999": waits.hold_ns.value_at_quantile(0.999),
        },
        "holder_ns": holder(&waits.holder),
        "passed_ns": waits.passed_ns,
        "blocked_in": blocked,
    })
}

/// Returns the record of what threads did around the longest wait, which `report` draws.
pub(crate) fn timeline(window: Window, source: &str) -> TimelineRow {
    let stint = |(thread, state, processor, from, to): Stint| {
        (thread, state.to_owned(), processor, from, to)
    };
    TimelineRow {
        world: "trace".into(),
        workload: source.into(),
        lock: window.locks.join(", "),
        policy: "none".into(),
        cpus: u32::try_from(window.threads.len()).unwrap_or(0),
        pcpus: window.processors,
        cs_ns: 0,
        ncs_ns: 0,
        speed: None,
        from_ns: window.from_ns,
        to_ns: window.to_ns,
        stints: window.stints.into_iter().map(stint).collect(),
        holds: window.holds,
    }
}

fn holder(split: &HolderNs) -> Value {
    split.named().iter().map(|(name, ns)| ((*name).to_owned(), json!(ns))).collect()
}
