//! A timeline in the Trace Event Format, which Perfetto (ui.perfetto.dev) and `chrome://tracing`
//! open: a track for each thread, with its states and waits, and an arrow from who ends a sleep.

use super::slices::{Slice, Slices};
use crate::verdicts::Names;
use serde_json::{Value, json};

/// Writes all that was kept of the events.
pub(crate) fn timeline(slices: &Slices, names: &mut Names<'_>) -> Value {
    let mut events = Vec::new();
    for (tid, (pid, _)) in &slices.threads {
        let name = names.thread(*tid);
        events.push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                           "args": {"name": name}}));
    }
    for (number, one) in slices.all.iter().enumerate() {
        events.push(slice(one, names));
        events.extend(arrow(slices, number, one).into_iter().flatten());
    }
    json!({"traceEvents": events, "displayTimeUnit": "ns"})
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn slice(one: &Slice, names: &mut Names<'_>) -> Value {
    let mut event = json!({
        "ph": "X", "cat": if one.sleeps.is_some() { "wait" } else { "state" }, "name": one.name,
        "pid": one.process, "tid": one.thread, "ts": us(one.from), "dur": us(one.to) - us(one.from),
    });
    if let Some((site, lock)) = one.sleeps {
        event["args"] = json!({"stack": names.stack(site)});
        if lock != 0 {
            event["args"]["lock"] = json!(format!("{lock:#x}"));
        }
        if let Some((thread, site, _)) = one.ender {
            event["args"]["ended by"] = json!(names.thread(thread));
            event["args"]["whose stack"] = json!(names.stack(site));
        }
    }
    event
}

/// Returns both ends of an arrow, if a thread that is seen has ended the sleep.
fn arrow(slices: &Slices, number: usize, one: &Slice) -> Option<[Value; 2]> {
    let (by, _, at) = one.ender?;
    let (process, _) = slices.threads.get(&by)?;
    let end = |ph: &str, pid: u32, tid: u32, at: u64| {
        json!({"ph": ph, "bp": "e", "cat": "wake", "name": "wakes", "id": number, "pid": pid,
               "tid": tid, "ts": us(at)})
    };
    Some([end("s", *process, by, at), end("f", one.process, one.thread, one.to)])
}
