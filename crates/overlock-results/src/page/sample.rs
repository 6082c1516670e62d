//! Written rows, from which the tests of this crate make charts and tables.

use crate::page::group::{Section, sections};
use crate::page::read::Results;

/// Names that are longer than any chart has room for.
pub(crate) const LONG: &str = "sequential-test-and-set-that-nobody-calls-by-this-name";

#[path = "../../tests/support/records.rs"]
#[allow(dead_code, reason = "the tests of pages use more of it")]
mod records;

/// Returns a row of the laboratory: `lock` has this throughput with `cpus` vCPUs on two pCPUs.
pub(crate) fn point(lock: &str, cpus: u32, ops: f64) -> String {
    records::point(lock, cpus.into(), ops).to_string()
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
