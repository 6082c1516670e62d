//! The place where most of some time was spent.

use overlock_trace::{Class, Finding, Findings, Kind, share};

/// From this share of all thread time on, a lock is named first.
pub(super) const NOTICED: f64 = 0.05;

/// A program that waits for so many threads or processes to end does not just end itself.
const MANY_ENDS: u64 = 10;

pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        part if part < 1.0 => "< 1 %".into(),
        part => format!("{part:.0} %"),
    }
}

/// The place where most of the time of a class was spent.
pub(super) struct Worst {
    pub(super) what: String,
    pub(super) place: String,
    pub(super) share: String,
    pub(super) finding: Option<Finding>,
}

impl Worst {
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.finding.as_ref().is_some_and(|one| one.kind == kind)
    }
}

pub(super) fn worst(found: &Findings, finding: Option<Finding>) -> Worst {
    let (what, place, ns) = match &finding {
        Some(one) => (one.what.clone(), one.path(), one.row.waited_ns),
        None => ("something".into(), "?".into(), 0),
    };
    Worst { what, place, share: percent(share(ns, found.report.time.total())), finding }
}

/// The callers of a place are told if one path to it has most of its time. A thread that waits for
/// another one's end once, or for some time, by its own will, is told of last; and a place counts
/// double of which it is known for whom its threads wait.
pub(super) fn worst_of(found: &Findings, class: Class) -> Worst {
    let mut places: Vec<Finding> = Vec::new();
    for one in found.of(class) {
        match places.iter_mut().find(|of| (&of.what, &of.place) == (&one.what, &one.place)) {
            Some(place) => {
                if one.row.waited_ns * 2 > place.row.waited_ns {
                    place.callers.clear();
                }
                place.absorb(&one);
            }
            None => places.push(one),
        }
    }
    let total = found.report.time.total();
    let rank = |one: &Finding| {
        // What takes as long as the program is for its end.
        let mean = one.row.waited_ns / one.row.waits.max(1);
        let is_whole = one.class == Class::Work && mean / 4 * 5 > found.report.elapsed_ns;
        let is_by_will = match one.kind {
            Kind::Join | Kind::Child => one.row.waits < MANY_ENDS,
            kind => is_whole || matches!(kind, Kind::Timer | Kind::Idle),
        };
        let is_first = !is_by_will && share(one.row.waited_ns, total) > NOTICED;
        let is_told = one.is_followed();
        let weight = one.row.waited_ns.saturating_mul(if is_told { 2 } else { 1 });
        (is_first, !is_first && (is_told || one.kind == Kind::Timer), weight)
    };
    worst(found, places.into_iter().max_by_key(rank))
}
