//! Written rows, from which the tests of this crate make charts and tables.

use crate::page::group::{Section, sections};
use crate::page::read::Results;

/// Names that are longer than any chart has room for.
pub(crate) const LONG: &str = "sequential-test-and-set-that-nobody-calls-by-this-name";

/// Returns a row of the laboratory: `lock` has this throughput with `cpus` vCPUs on two pCPUs.
pub(crate) fn point(lock: &str, cpus: u32, ops: f64) -> String {
    let (low, high) = (0.9 * ops, 1.1 * ops);
    format!(
        r#"{{"kind":"point","world":"kvm","workload":"micro","lock":"{lock}","policy":"none",
        "cpus":{cpus},"pcpus":2,"cs_ns":1000,"ncs_ns":0,"seconds":0.5,"samples":[{{}},{{}},{{}}],
        "interval_coverage":0.75,"jain":0.5,"ops_per_s":{{"median":{ops},"low":{low},"high":{high}}},
        "ops_per_cpu":{{"min":50,"avg":100.0,"max":150}},"cpu_s_per_s":1.75,
        "wait_ns":{{"p50":100,"p99":2000,"p999":30000,"max":400000}},"longest_stall_ns":500000}}"#
    )
    .replace('\n', "")
}

pub(crate) fn read(rows: &[String]) -> Results {
    let mut results = Results::default();
    results.read("rows.jsonl", rows.join("\n").as_bytes());
    assert_eq!(results.complaints, [""; 0]);
    results
}

/// Four locks with three overcommits: one has a long name, and two are as fast as each other.
pub(crate) fn crowd() -> Results {
    let locks = [("hybrid", 9e5), ("queued", 9e5), ("native-ticket", 2e3), (LONG, 8.9e5)];
    let points =
        locks.map(|(lock, ops)| [2, 4, 7].map(|cpus| point(lock, cpus, ops / f64::from(cpus))));
    read(points.as_flattened())
}

pub(crate) fn only(results: &Results) -> Section<'_> {
    let mut sections = sections(&results.runs);
    assert_eq!(sections.len(), 1);
    sections.remove(0)
}
