//! Rows: what every measurement writes, and all that tables, checks, verdicts and pages read.
//!
//! A file of results is JSON Lines, one row a line, whose `kind` says which. The same code writes
//! and reads them, so whatever reads results reads rows: fresh ones, or those of a file. Fields can
//! be added, but are never renamed; a reader takes what it knows and leaves the rest.

mod others;
mod point;
mod program;
mod relate;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use others::{Doctor, Symptom, Torture, TortureFailure};
pub use point::{Asked, Point, beside};
pub use program::{Choice, LIBC, NONE, PROCESS, Programs, SampleRow, StartUp};
pub use relate::{geomeans, relate};

pub use crate::published::Agreement;
use crate::published::PublishedFigure;
use crate::stats::Interval;

/// One line of a file of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Row {
    Run(Head),
    Point(Box<Point>),
    Pair(Pair),
    Summary(Summary),
    /// A lock or a guest that did what none may do.
    Failure(Failure),
    Check(Check),
    Published(Box<Beside>),
    Advice(Advice),
    Timeline(Box<TimelineRow>),
    Sample(Box<SampleRow>),
    #[serde(rename = "verdict")]
    Choice(Choice),
    Torture(Torture),
    TortureFailure(TortureFailure),
    Doctor(Doctor),
    #[serde(untagged, skip_deserializing)]
    Other(Value),
}

impl Row {
    pub fn point(&self) -> Option<&Point> {
        if let Self::Point(point) = self { Some(point) } else { None }
    }

    pub fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| {
            // The place within the line: it is the only one.
            let cause = error.to_string();
            let cause = cause.split(" at line ").next().unwrap_or_default();
            format!("{cause} at column {}", error.column())
        })?;
        let Some(kind) = value.get("kind").and_then(Value::as_str) else {
            return Err("it has no kind".into());
        };
        if let Ok(row) = Self::deserialize(&value) {
            return Ok(row);
        }
        // What tables, charts and checks compute from is complete, or no row. From the others
        // nothing is computed; earlier releases wrote other fields of them.
        let broken = match kind {
            "run" => Head::deserialize(&value).err(),
            "point" => Point::deserialize(&value).err(),
            "pair" => Pair::deserialize(&value).err(),
            "timeline" => TimelineRow::deserialize(&value).err(),
            _ => None,
        };
        match broken {
            Some(error) => Err(format!("its kind is {kind:?}, but {error}")),
            None => Ok(Self::Other(value)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Head {
    pub version: Option<String>,
    pub commit: Option<String>,
    pub command: Vec<String>,
    /// The seed of everything that was drawn.
    pub seed: Option<u64>,
    pub machine: Machine,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// CPUs that the command may use.
    pub cpus: Option<u64>,
    pub cpu_model: Option<String>,
    pub kernel: Option<String>,
    /// The hypervisor underneath, if the CPU admits to one.
    pub hypervisor: Option<String>,
    /// Rate of the time stamp counter if it was the clock; otherwise `clock_gettime` was.
    pub tsc_khz: Option<u64>,
    pub load_average: Option<f64>,
}

impl Machine {
    pub fn is(&self, other: &Self) -> bool {
        Self { load_average: other.load_average, ..self.clone() } == *other
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub lock: String,
    pub ns: Option<Interval>,
    /// The samples, in the same order for all locks.
    #[serde(default)]
    pub samples: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub lock: String,
    /// Beside how many busy processes, if any: each number has a summary of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<u32>,
    /// Geometric mean over the points of throughput over that of each point's best peer.
    pub of_best_peer: Option<Interval>,
    /// The same of the points without any work: threads that only lock and unlock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bare_of_best_peer: Option<f64>,
    /// The CPU time of the busy processes beside, as a share of what they have alone: the mean over
    /// the points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<f64>,
    pub worst: Option<Worst>,
    pub pair_ns: Option<f64>,
    #[serde(default)]
    pub worst_jain: f64,
    /// The same at points of up to 16 threads only.
    #[serde(default)]
    pub calm_jain: f64,
    /// Geometric mean over the points with more than one thread.
    pub p999_of_parking_lot: Option<f64>,
    pub stall_of_parking_lot: Option<f64>,
    #[serde(default)]
    pub longest_stall_ns: f64,
    /// The same at points of up to 16 threads only.
    #[serde(default)]
    pub calm_stall_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    pub ratio: f64,
    pub point: String,
}

/// Something that no lock, and no guest, may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    AtLeast,
    AtMost,
}

/// The outcome of a bound. It is missed only if the whole interval lies on the wrong side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The median is on the right side.
    Met,
    /// The median is not, but a part of the interval is: more rounds can tell.
    Unclear,
    Missed,
}

/// One bound at one place, or what a kernel checked of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub bound: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Where: a point, all of them, or a world.
    pub place: String,
    /// The limit and the value; absent where a check is fine or not.
    #[serde(flatten)]
    pub limited: Option<Limited>,
    pub verdict: Judgement,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    pub side: Side,
    pub limit: f64,
    pub value: Interval,
}

impl Check {
    /// Returns the row of something that is fine or not, and what was found.
    pub fn plain(what: &str, place: &str, fine: bool, found: &str) -> Self {
        Self {
            bound: what.to_owned(),
            lock: None,
            place: place.to_owned(),
            limited: None,
            verdict: if fine { Judgement::Met } else { Judgement::Missed },
            note: Some(found.to_owned()).filter(|found| !found.is_empty()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    pub experiment: String,
    pub world: String,
    pub ours_cpus: u32,
    pub ours_pcpus: u32,
    #[serde(flatten)]
    pub published: PublishedFigure,
    /// The published figure in the form of ours: over its base, if it has one; more is better.
    pub published_ratio: Option<f64>,
    /// The effect that it shows: its distance from the value without any.
    pub published_effect: Option<f64>,
    pub ours: Interval,
    pub ours_effect: f64,
    /// The lowest and the highest of the rounds, and how many there were.
    #[serde(default)]
    pub ours_ends: [f64; 2],
    #[serde(default)]
    pub rounds: usize,
    /// The median of our figure before it is divided by its base.
    #[serde(default)]
    pub ours_absolute: f64,
    /// The figure of the lock of ours that stands beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Interval>,
    /// The throughput of that lock over the published one's, and whether it is at least as good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_ratio: Option<Interval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_holds: Option<Agreement>,
    /// Whether both are gains, both losses, or neither.
    pub direction: Agreement,
    /// Whether the effects are equally large, to within a quarter.
    pub size: Agreement,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub lock: String,
    /// Whether the rounds support that choice; the first versions did not say.
    #[serde(default)]
    pub verdict: bool,
    #[serde(default)]
    pub ties: Vec<String>,
    pub sentence: String,
}

/// vCPU, state (`running`, `ready`, `halted`), pCPU, from, to.
pub type Stint = (u32, String, Option<u32>, u64, u64);

/// vCPU, lock, asked, taken, released; the last two are absent if they came after the end.
pub type Hold = (u32, u32, u64, Option<u64>, Option<u64>);

/// Which vCPU ran where, waited for which lock and held which, for a part of a run that is used for
/// nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    pub world: String,
    pub workload: String,
    pub lock: String,
    pub policy: String,
    pub cpus: u32,
    pub pcpus: u32,
    pub cs_ns: u64,
    pub ncs_ns: u64,
    /// Throughput of the recorded run over the median of the others.
    pub speed: Option<f64>,
    /// When the recording begins, in nanoseconds of the clock that vCPUs read.
    pub from_ns: u64,
    pub to_ns: u64,
    pub stints: Vec<Stint>,
    pub holds: Vec<Hold>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let value = Interval { median: 1.0, low: 0.5, high: 2.0 };
        let rows = [
            Row::Run(Head { seed: Some(7), ..Head::default() }),
            Row::Pair(Pair { lock: "std".into(), ns: Some(value), samples: vec![1.0] }),
            Row::Failure(Failure { sentence: "it lost updates".into(), ..Failure::default() }),
            Row::Point(Box::default()),
            Row::Check(Check::plain("kicks arrive", "xen", false, "1 of 2 did")),
            Row::Check(Check {
                limited: Some(Limited { side: Side::AtLeast, limit: 1.0, value }),
                ..Check::plain("Jain index", "2 threads", true, "")
            }),
            Row::Torture(Torture { lock: "ticket".into(), steps: 3, ..Torture::default() }),
            Row::TortureFailure(TortureFailure { cpu: 1, ..TortureFailure::default() }),
            Row::Doctor(Doctor { findings: vec![Symptom::new("CPUs", "2")], ..Doctor::default() }),
            Row::Other(serde_json::json!({"kind": "trace-loop", "samples": 3})),
        ];
        for row in rows {
            let line = serde_json::to_string(&row).unwrap();
            assert_eq!(Row::parse(&line).as_ref(), Ok(&row), "{line}");
        }
    }

    #[test]
    fn what_is_no_row_is_refused_and_newer_fields_are_left() {
        assert!(Row::parse("{broken").is_err());
        assert!(Row::parse("{\"a\":1}").unwrap_err().contains("kind"));
        assert!(Row::parse("{\"kind\":\"pair\",\"lock\":3}").is_err());
        let newer = Row::parse("{\"kind\":\"pair\",\"lock\":\"std\",\"ns\":null,\"colour\":1}");
        assert!(matches!(newer, Ok(Row::Pair(_))), "{newer:?}");
    }
}
