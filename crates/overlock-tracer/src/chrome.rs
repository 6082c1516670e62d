// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timeline in the Trace Event Format, which Perfetto (ui.perfetto.dev) and `chrome://tracing`
//! open: a track for each thread, with its states and waits.

use crate::slices::{Slice, Slices};
use serde_json::{Value, json};

/// Writes all that was kept of the events.
pub(crate) fn timeline(slices: &Slices) -> Value {
    let us = |ns: u64| ns as f64 / 1000.0;
    let slice = |one: &Slice| {
        let kind = if one.waits.is_some() { "wait" } else { "state" };
        json!({"ph": "X", "cat": kind, "name": one.name, "pid": one.process, "tid": one.thread,
               "ts": us(one.from), "dur": us(one.to) - us(one.from)})
    };
    let named = slices.threads.iter().map(|(tid, (pid, _))| {
        json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
               "args": {"name": format!("thread {tid}")}})
    });
    let events: Vec<Value> = slices.all.iter().map(slice).chain(named).collect();
    json!({"traceEvents": events, "displayTimeUnit": "ns"})
}
