// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timeline in the Trace Event Format, which Perfetto (ui.perfetto.dev) and `chrome://tracing`
//! open: a track for each thread, with its states and waits.

use crate::finding::Names;
use crate::tracer::Tracer;
use overlock_trace::{Event, Off, What};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// What a thread does since when.
#[derive(Clone, Debug)]
struct Since {
    at: u64,
    name: String,
}

/// Writes all that was kept of the events.
pub(crate) fn timeline(tracer: &Tracer, names: &mut Names<'_>) -> Value {
    let first = tracer.kept.first().map_or(0, |(event, _)| event.at_ns);
    let us = |at: u64| at.saturating_sub(first) as f64 / 1000.0;
    let mut events = Vec::new();
    let mut state: HashMap<u32, Since> = HashMap::new();
    let mut wait: HashMap<u32, Since> = HashMap::new();
    let mut process: BTreeMap<u32, u32> = BTreeMap::new();
    let slice = |one: &Since, until: u64, pid: u32, tid: u32, kind: &str| {
        json!({"ph": "X", "cat": kind, "name": one.name, "pid": pid, "tid": tid,
               "ts": us(one.at), "dur": us(until) - us(one.at)})
    };
    for (Event { at_ns: at, thread, what }, _) in &tracer.kept {
        let pid = process.get(thread).copied().unwrap_or(0);
        let next = match what {
            What::Born { process: of, .. } => {
                process.insert(*thread, *of);
                None
            }
            What::In => Some("running".to_owned()),
            What::Out(Off::Preempted) | What::Woken { .. } => Some("no processor".to_owned()),
            What::Out(Off::Throttled) => Some("no quota".to_owned()),
            What::Out(Off::Blocked(reason)) => {
                Some(format!("asleep: {}", tracer.kernel.text(*reason)))
            }
            What::Wait { site, .. } => {
                let (kind, place) = names.of(*site);
                let name = format!("waits: {} at {place}", kind.name());
                wait.insert(*thread, Since { at: *at, name });
                None
            }
            What::WaitEnd | What::Got => {
                let ended = wait.remove(thread);
                events.extend(ended.map(|one| slice(&one, *at, pid, *thread, "wait")));
                None
            }
            What::Exit => {
                let ended = state.remove(thread);
                events.extend(ended.map(|one| slice(&one, *at, pid, *thread, "state")));
                None
            }
            _ => None,
        };
        let Some(name) = next else { continue };
        // A thread that is woken before it has given up its processor goes on running.
        let runs = state.get(thread).is_some_and(|one| one.name == "running");
        if matches!(what, What::Woken { .. }) && runs {
            continue;
        }
        let before = state.insert(*thread, Since { at: *at, name });
        events.extend(before.map(|one| slice(&one, *at, pid, *thread, "state")));
    }
    let named = process.iter().map(|(tid, pid)| {
        json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
               "args": {"name": format!("thread {tid}")}})
    });
    events.extend(named);
    json!({"traceEvents": events, "displayTimeUnit": "ns"})
}
