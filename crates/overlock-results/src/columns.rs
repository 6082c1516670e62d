//! Columns, as data: what can be shown of a point. The terminal's tables, the page's and the
//! reference are made from these.

mod column;
mod list;

pub use column::{Column, Unit};
pub use list::COLUMNS;

/// Names of columns, in the order in which they are shown, with commas between them.
pub type View = str;

/// Returns the columns of a view.
pub fn of(view: &View) -> impl Iterator<Item = &'static Column> {
    view.split(", ").filter_map(Column::named)
}

/// How much threads did, and how long they waited.
pub const THREADS: &View = "ops/s, ops low, ops high, of best, Jain, p50, p99, p99.9, stall, write stall, CPU/s, CPU/op, \
    neighbours";
/// What a page shows, each with its ends below it.
pub const PAGE: &View = "of baseline, ops/s, of 1x, of best, of report, p50, p99, p99.9, longest, stall, average, \
    Jain, read, CPU/s";
/// Where the time of a lock went.
pub const LOCK_TIME: &View =
    "held, stopped, hand-over, kept, unseen, unwanted, longest unseen, turn, speed";
/// Where the time of its threads went.
pub const THREAD_TIME: &View = "working, waiting, kernel, queued, asleep, switches/s, lost CPU/s";
/// How much vCPUs did, what it cost, and how long they waited.
pub const VCPUS: &View = "CPUs, over, ops/s, ops low, ops high, of 1x, of hand-over, of native, p50, p99, p99.9, \
    stall, write stall, CPU/s, spin/s, steal/s, exits/s, slices/s, of nominal";
/// Does any vCPU starve, and how many acquisitions overtake a queue?
pub const FAIRNESS: &View = "CPUs, over, least, average, most, least served, Jain, unfair";
/// What yield policies gain, and how often they are right.
pub const YIELDS: &View = "CPUs, over, of report, of report low, of report high, of none, of robin, of oracle, asked/s, \
    yielded, right";
/// How long reads of the PM timer take, and what each rule gains.
pub const TIMER: &View =
    "CPUs, over, reads/s, of mutex, of mutex low, of mutex high, read, in reads, backwards";
/// How much the vCPUs of a kernel did.
pub const IMAGE: &View = "CPUs, ops/s, ops low, ops high, of native, of native-ticket, Jain, p50, p99, p99.9, stall, \
    steal/s, lost";
/// Its waits and kicks by outcome.
pub const IMAGE_WAITS: &View = "CPUs, halts, kicked, overdue, stray, early, kicks, hypercalls, halt exits, stale, futile, \
    stolen turns";

/// The sections of the reference, each with the tables whose columns it explains.
const SECTIONS: [(&str, &[&View]); 3] = [
    ("threads", &[THREADS, LOCK_TIME, THREAD_TIME]),
    ("vcpus", &[VCPUS, FAIRNESS, YIELDS, TIMER]),
    ("kernels", &[IMAGE, IMAGE_WAITS]),
];

/// The section of the reference that explains a column: `threads`, `vcpus` or `kernels` if only
/// these have it, else `all`.
pub fn section(column: &Column) -> &'static str {
    let has =
        |views: &[&View]| views.iter().any(|view| of(view).any(|one| one.name == column.name));
    let mut sections = SECTIONS.iter().filter(|(_, views)| has(views));
    match (sections.next(), sections.next()) {
        (Some((name, _)), None) => name,
        _ => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_views_have_only_columns_that_exist() {
        let names: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
        let views = SECTIONS.iter().flat_map(|(_, views)| *views).chain([&PAGE]);
        for name in views.flat_map(|view| view.split(", ")) {
            assert!(names.contains(name), "{name}");
        }
        let ends = |name| Column::named(name).and_then(Column::ends).map(|of| of.map(|of| of.name));
        assert_eq!(ends("of best"), Some(["of best low", "of best high"]));
        assert_eq!((ends("average"), ends("p50")), (Some(["least", "most"]), None));
    }
}
