//! Rows as a run writes them.

use serde_json::{Value, json};

/// The first row of a file.
pub(crate) fn run(commit: &str) -> Value {
    let machine = json!({"cpus": 2, "cpu_model": "Elbrus", "kernel": "6.1", "load_average": 0.1});
    let command = ["overlock", "lab", "--locks", "hybrid,ticket"];
    json!({"kind": "run", "version": "1.2.3", "commit": commit, "command": command, "seed": 7,
           "machine": machine})
}

pub(crate) fn point(lock: &str, cpus: u64, ops: f64) -> Value {
    json!({"kind": "point", "world": "kvm", "workload": "micro", "lock": lock, "policy": "none",
           "cpus": cpus, "pcpus": 2, "cs_ns": 1000, "ncs_ns": 0, "seconds": 0.5,
           "samples": [{}, {}, {}], "interval_coverage": 0.75, "jain": 0.987654,
           "ops_per_s": {"median": ops, "low": 0.9 * ops, "high": 1.1 * ops},
           "ops_per_cpu": {"min": 17, "avg": 20.5, "max": 31},
           "wait_ns": {"p50": 111, "p99": 2222, "p999": 33333, "max": 444444},
           "longest_stall_ns": 555555, "cpu_s_per_s": 1.75})
}

pub(crate) fn experiment(commit: &str, faster: f64) -> Vec<Value> {
    let points = [("hybrid", 2, 9e6), ("hybrid", 8, 8e6), ("ticket", 2, 7e6), ("ticket", 8, 3e4)];
    let points = points.map(|(lock, cpus, ops)| point(lock, cpus, ops * faster));
    [run(commit)].into_iter().chain(points).collect()
}
