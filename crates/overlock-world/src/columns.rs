// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns, as data: what can be shown of a point. The terminal's tables, the page's and the
//! reference are made from these.

use crate::row::{Asked, Point};
use crate::run::Run;
use crate::units::{count, three, time};

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Three figures with k, M or G.
    Count,
    /// Three figures.
    Ratio,
    /// A duration; the number is in nanoseconds.
    Time,
    /// Percent; the number is a share of 1.
    Share,
    /// Two digits after the point.
    Hundredths,
    /// No digits after the point.
    Whole,
    /// Three figures and an x.
    Times,
}

impl Unit {
    /// Writes a number.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Count => count(value),
            Self::Ratio => three(value),
            Self::Time => time(value),
            Self::Share => format!("{} %", three(100.0 * value)),
            Self::Hundredths => format!("{value:.2}"),
            Self::Whole => format!("{value:.0}"),
            Self::Times => format!("{}x", three(value)),
        }
    }
}

/// Something that can be shown of a point.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, which no other has.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// How its numbers are written.
    pub unit: Unit,
    /// The number; nothing where it has no meaning.
    pub get: fn(&Point) -> Option<f64>,
}

impl Column {
    /// The column with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.name == name)
    }

    /// The heading: the ends of an interval stand beside their median.
    #[must_use]
    pub fn heading(&self) -> &'static str {
        match self.name.rsplit_once(' ') {
            Some((_, end @ ("low" | "high"))) => end,
            _ => self.name,
        }
    }

    /// The number of a point, written; nothing where it has no meaning.
    #[must_use]
    pub fn show(&self, point: &Point) -> Option<String> {
        (self.get)(point).filter(|value| value.is_finite()).map(|value| self.unit.show(value))
    }
}

/// A table of points: the names of its columns.
pub type View = [&'static str];

/// How much threads did, and how long they waited.
pub const THREADS: &View =
    &["ops/s", "ops low", "ops high", "of best", "Jain", "p50", "p99", "p99.9", "stall", "CPU/s"];
/// Where the time of a lock went.
pub const LOCK_TIME: &View = &[
    "held",
    "stopped",
    "hand-over",
    "kept",
    "unseen",
    "unwanted",
    "longest unseen",
    "turn",
    "speed",
];
/// Where the time of its threads went.
pub const THREAD_TIME: &View =
    &["working", "waiting", "kernel", "queued", "asleep", "switches/s", "lost CPU/s"];
/// How much vCPUs did, what it cost, and how long they waited.
pub const VCPUS: &View = &[
    "CPUs",
    "over",
    "ops/s",
    "ops low",
    "ops high",
    "of 1x",
    "of hand-over",
    "of native",
    "p50",
    "p99",
    "p99.9",
    "stall",
    "CPU/s",
    "spin/s",
    "steal/s",
    "exits/s",
    "slices/s",
    "of nominal",
];
/// Does any vCPU starve, and how many acquisitions overtake a queue?
pub const FAIRNESS: &View =
    &["CPUs", "over", "least", "average", "most", "least served", "Jain", "unfair"];
/// What yield policies gain, and how often they are right.
pub const YIELDS: &View = &[
    "CPUs",
    "over",
    "of report",
    "of report low",
    "of report high",
    "of none",
    "of robin",
    "of oracle",
    "asked/s",
    "yielded",
    "right",
];
/// How long reads of the PM timer take, and what each rule gains.
pub const TIMER: &View = &[
    "CPUs",
    "over",
    "reads/s",
    "of mutex",
    "of mutex low",
    "of mutex high",
    "read",
    "in reads",
    "backwards",
];
/// How much the vCPUs of a kernel did.
pub const IMAGE: &View = &[
    "CPUs",
    "ops/s",
    "ops low",
    "ops high",
    "of native",
    "of native-ticket",
    "Jain",
    "p50",
    "p99",
    "p99.9",
    "stall",
    "steal/s",
    "lost",
];
/// Its waits and kicks by outcome.
pub const IMAGE_WAITS: &View = &[
    "CPUs",
    "halts",
    "kicked",
    "overdue",
    "stray",
    "early",
    "kicks",
    "stale",
    "futile",
    "stolen turns",
];

fn asked(point: &Point, of: fn(Asked, f64) -> f64) -> Option<f64> {
    let asked = point.asked();
    (asked.times > 0.0).then(|| of(asked, point.total_seconds()))
}

fn timer(point: &Point, of: fn(&Run) -> f64) -> Option<f64> {
    point.timer.as_ref()?;
    point.median(of)
}

fn event(point: &Point, name: &str) -> Option<f64> {
    Some(*point.counters.get(name)? as f64)
}

/// The CPUs that worked: the time of the operations of a run without a lock.
fn working(point: &Point) -> Option<f64> {
    let extra = point.cs_ns? as f64 * f64::from(point.uneven.unwrap_or(1) - 1);
    let first = point.median(|run| run.ops.first().copied().unwrap_or(0) as f64 / run.seconds)?;
    Some((point.ops() * point.floor_ns? + first * extra) / 1e9)
}

/// All columns.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "ops/s",
        about: "operations per second of all threads or vCPUs together; median over rounds",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_s?.median),
    },
    Column {
        name: "ops low",
        about: "the lower end of its interval",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_s?.low),
    },
    Column {
        name: "ops high",
        about: "the upper end",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_s?.high),
    },
    Column {
        name: "of best",
        about: "throughput over that of the best peer at this point, by rounds",
        unit: Unit::Ratio,
        get: |p| Some(p.of_best_peer?.median),
    },
    Column {
        name: "of best low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_best_peer?.low),
    },
    Column {
        name: "of best high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_best_peer?.high),
    },
    Column {
        name: "of 1x",
        about: "throughput over that of the same with one vCPU for each pCPU, by rounds",
        unit: Unit::Ratio,
        get: |p| Some(p.of_1x?.median),
    },
    Column {
        name: "of 1x low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_1x?.low),
    },
    Column {
        name: "of 1x high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_1x?.high),
    },
    Column {
        name: "of hand-over",
        about: "throughput over that of hand-overs alone, the most that a lock in strict order can do",
        unit: Unit::Ratio,
        get: |p| Some(p.of_limit?.median),
    },
    Column {
        name: "of hand-over low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_limit?.low),
    },
    Column {
        name: "of hand-over high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_limit?.high),
    },
    Column {
        name: "of native",
        about: "throughput over that of the native build of the same lock, by rounds",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native?.median),
    },
    Column {
        name: "of native low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native?.low),
    },
    Column {
        name: "of native high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native?.high),
    },
    Column {
        name: "of native-ticket",
        about: "throughput over that of the ticket lock that only spins, by rounds",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native_ticket?.median),
    },
    Column {
        name: "of native-ticket low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native_ticket?.low),
    },
    Column {
        name: "of native-ticket high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_native_ticket?.high),
    },
    Column {
        name: "of report",
        about: "throughput over that of the same where vCPUs report spins and none yields",
        unit: Unit::Ratio,
        get: |p| Some(p.of_report?.median),
    },
    Column {
        name: "of report low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_report?.low),
    },
    Column {
        name: "of report high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_report?.high),
    },
    Column {
        name: "of none",
        about: "throughput over that of the same without a yield policy",
        unit: Unit::Ratio,
        get: |p| Some(p.of_none?.median),
    },
    Column {
        name: "of none low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_none?.low),
    },
    Column {
        name: "of none high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_none?.high),
    },
    Column {
        name: "of robin",
        about: "throughput over that of the same under round-robin",
        unit: Unit::Ratio,
        get: |p| Some(p.of_robin?.median),
    },
    Column {
        name: "of robin low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_robin?.low),
    },
    Column {
        name: "of robin high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_robin?.high),
    },
    Column {
        name: "of oracle",
        about: "throughput over that of the same under the policy that always knows",
        unit: Unit::Ratio,
        get: |p| Some(p.of_oracle?.median),
    },
    Column {
        name: "of oracle low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_oracle?.low),
    },
    Column {
        name: "of oracle high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_oracle?.high),
    },
    Column {
        name: "of mutex",
        about: "reads of the PM timer over those under the rule mutex",
        unit: Unit::Ratio,
        get: |p| Some(p.of_mutex?.median),
    },
    Column {
        name: "of mutex low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_mutex?.low),
    },
    Column {
        name: "of mutex high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_mutex?.high),
    },
    Column {
        name: "of refresh",
        about: "reads of the PM timer over those under the rule refresh",
        unit: Unit::Ratio,
        get: |p| Some(p.of_refresh?.median),
    },
    Column {
        name: "of refresh low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_refresh?.low),
    },
    Column {
        name: "of refresh high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_refresh?.high),
    },
    Column {
        name: "of baseline",
        about: "how many times better than the baseline, by rounds; above 1 is better",
        unit: Unit::Ratio,
        get: |p| Some(p.of_baseline?.median),
    },
    Column {
        name: "of baseline low",
        about: "the lower end of its interval",
        unit: Unit::Ratio,
        get: |p| Some(p.of_baseline?.low),
    },
    Column {
        name: "of baseline high",
        about: "the upper end",
        unit: Unit::Ratio,
        get: |p| Some(p.of_baseline?.high),
    },
    Column {
        name: "figure",
        about: "the compared figure of a program: its own, or wall time in seconds; median over rounds",
        unit: Unit::Ratio,
        get: |p| Some(p.value?.median),
    },
    Column {
        name: "p50",
        about: "the median wait for the lock; a lock that was free counts as 0",
        unit: Unit::Time,
        get: |p| Some(p.wait_ns?.p50 as f64),
    },
    Column {
        name: "p99",
        about: "99 % of the waits are no longer",
        unit: Unit::Time,
        get: |p| Some(p.wait_ns?.p99 as f64),
    },
    Column {
        name: "p99.9",
        about: "99.9 % of the waits are no longer",
        unit: Unit::Time,
        get: |p| Some(p.wait_ns?.p999 as f64),
    },
    Column {
        name: "longest",
        about: "the longest wait that ended, in any round",
        unit: Unit::Time,
        get: |p| Some(p.wait_ns?.max as f64),
    },
    Column {
        name: "stall",
        about: "the longest time that any thread or vCPU waited for the lock, even if it never got it",
        unit: Unit::Time,
        get: |p| Some(p.longest_stall_ns? as f64),
    },
    Column {
        name: "Jain",
        about: "Jain's index of fairness: 1 all did the same, 1/n one did everything",
        unit: Unit::Hundredths,
        get: |p| p.jain,
    },
    Column {
        name: "least",
        about: "operations in a run of the thread or vCPU that did the least",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_cpu?.min as f64),
    },
    Column {
        name: "average",
        about: "operations of the average one",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_cpu?.avg),
    },
    Column {
        name: "most",
        about: "operations of the one that did the most",
        unit: Unit::Count,
        get: |p| Some(p.ops_per_cpu?.max as f64),
    },
    Column {
        name: "least served",
        about: "operations of the one that did the least over those of the average one",
        unit: Unit::Hundredths,
        get: |p| p.median(Run::least_served),
    },
    Column {
        name: "unfair",
        about: "the share of acquisitions that overtook a queue",
        unit: Unit::Share,
        get: |p| p.unfair_share,
    },
    Column {
        name: "CPU/s",
        about: "CPU seconds used in a second: the price of waiting",
        unit: Unit::Hundredths,
        // Everything uses some: a zero is a figure that the row does not have.
        get: |p| Some(p.cpu_s_per_s).filter(|used| *used > 0.0),
    },
    Column {
        name: "spin/s",
        about: "CPU seconds in a second that went into waiting for locks",
        unit: Unit::Hundredths,
        get: |p| p.spin_s_per_s,
    },
    Column {
        name: "steal/s",
        about: "seconds in a second for which vCPUs were ready without a pCPU, all together",
        unit: Unit::Hundredths,
        get: |p| p.steal_s_per_s,
    },
    Column {
        name: "exits/s",
        about: "how often per second a vCPU left the guest",
        unit: Unit::Count,
        get: |p| p.median(Run::exits_per_s).filter(|_| !p.exits.is_empty()),
    },
    Column {
        name: "slices/s",
        about: "slices per second that ended with a preemption",
        unit: Unit::Count,
        get: |p| p.slices_per_s,
    },
    Column {
        name: "of nominal",
        about: "the nominal length of slices over their actual length",
        unit: Unit::Hundredths,
        get: |p| p.slices_of_nominal,
    },
    Column {
        name: "asked/s",
        about: "spins and kicks per second that the yield policy had to decide on",
        unit: Unit::Count,
        get: |p| asked(p, |asked, seconds| asked.times / seconds),
    },
    Column {
        name: "yielded",
        about: "the share of these that let another vCPU run",
        unit: Unit::Share,
        get: |p| asked(p, |asked, _| asked.yielded / asked.times),
    },
    Column {
        name: "right",
        about: "the share known to have run the vCPU that was waited for",
        unit: Unit::Share,
        get: |p| asked(p, |asked, _| asked.hits / asked.times),
    },
    Column {
        name: "reads/s",
        about: "reads of the PM timer per second",
        unit: Unit::Count,
        get: |p| timer(p, |run| run.exit_per_s("pm-timer")),
    },
    Column {
        name: "read",
        about: "how long one takes on average",
        unit: Unit::Time,
        get: |p| Some(p.timer_read_ns?.median),
    },
    Column {
        name: "in reads",
        about: "the share of the CPU time between asking for the PM timer and having its value",
        unit: Unit::Share,
        get: |p| timer(p, Run::timer_share),
    },
    Column {
        name: "backwards",
        about: "reads that went backwards: must be 0",
        unit: Unit::Whole,
        get: |p| timer(p, |_| 0.0).and(Some(p.timer_backwards? as f64)),
    },
    Column {
        name: "lost",
        about: "updates under the lock that were lost: must be 0",
        unit: Unit::Whole,
        get: |p| Some(p.lost.filter(|lost| *lost > 0)? as f64),
    },
    Column {
        name: "held",
        about: "share of the time in which the lock was held by a running thread",
        unit: Unit::Share,
        get: |p| Some(p.spent?.held),
    },
    Column {
        name: "stopped",
        about: "share in which it was held by a thread without a CPU",
        unit: Unit::Share,
        get: |p| Some(p.spent?.stopped),
    },
    Column {
        name: "hand-over",
        about: "share in which it was free and wanted, for at most 1 us, before another thread had it",
        unit: Unit::Share,
        get: |p| Some(p.spent?.hand_over),
    },
    Column {
        name: "kept",
        about: "the same before the same thread had it again",
        unit: Unit::Share,
        get: |p| Some(p.spent?.kept),
    },
    Column {
        name: "unseen",
        about: "share in which it was free and wanted for longer: no thread looked",
        unit: Unit::Share,
        get: |p| Some(p.spent?.unseen),
    },
    Column {
        name: "unwanted",
        about: "share in which no thread wanted it",
        unit: Unit::Share,
        get: |p| Some(p.spent?.unwanted),
    },
    Column {
        name: "longest unseen",
        about: "the longest time for which the lock was free though wanted",
        unit: Unit::Time,
        get: |p| Some(p.spent?.longest_unseen_ns),
    },
    Column {
        name: "turn",
        about: "critical sections that a thread has before another gets the lock",
        unit: Unit::Ratio,
        get: |p| Some(p.spent?.turn),
    },
    Column {
        name: "speed",
        about: "throughput of the run whose operations were logged over that of the ordinary one",
        unit: Unit::Hundredths,
        get: |p| Some(p.spent?.speed),
    },
    Column {
        name: "working",
        about: "CPUs that did the work of critical sections and pauses",
        unit: Unit::Hundredths,
        get: working,
    },
    Column {
        name: "waiting",
        about: "CPUs that waited",
        unit: Unit::Hundredths,
        get: |p| Some((p.sched?.cpu - working(p)?).max(0.0)),
    },
    Column {
        name: "kernel",
        about: "CPUs in the kernel, a part of both",
        unit: Unit::Hundredths,
        get: |p| Some(p.sched?.system),
    },
    Column {
        name: "queued",
        about: "threads that were ready and had no CPU",
        unit: Unit::Hundredths,
        get: |p| p.sched?.queued,
    },
    Column {
        name: "asleep",
        about: "threads that slept",
        unit: Unit::Hundredths,
        get: |p| Some((f64::from(p.cpus?) - p.sched?.cpu - p.sched?.queued?).max(0.0)),
    },
    Column {
        name: "switches/s",
        about: "switches per second of threads that went to sleep",
        unit: Unit::Count,
        get: |p| Some(p.sched?.voluntary_per_s),
    },
    Column {
        name: "lost CPU/s",
        about: "switches per second of threads that lost their CPU or yielded it",
        unit: Unit::Count,
        get: |p| Some(p.sched?.involuntary_per_s),
    },
    Column {
        name: "halts",
        about: "waits that halted (polls under Xen); all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "halts"),
    },
    Column {
        name: "kicked",
        about: "of these, ended by a kick; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "kicked"),
    },
    Column {
        name: "overdue",
        about: "ended by their deadline; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "overdue"),
    },
    Column {
        name: "stray",
        about: "ended otherwise; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "stray"),
    },
    Column {
        name: "early",
        about: "the word had changed before the halt; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "early"),
    },
    Column {
        name: "kicks",
        about: "kicks that were sent; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "kicks"),
    },
    Column {
        name: "stale",
        about: "kicks found by a later wait; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "stale"),
    },
    Column {
        name: "futile",
        about: "halts that ended with the word as it was; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "futile"),
    },
    Column {
        name: "stolen turns",
        about: "acquisitions that passed the queue; all rounds together",
        unit: Unit::Count,
        get: |p| event(p, "pv_lock_stealing"),
    },
    Column {
        name: "CPUs",
        about: "threads, or vCPUs",
        unit: Unit::Whole,
        get: |p| Some(f64::from(p.cpus?)),
    },
    Column {
        name: "over",
        about: "threads for each CPU, or vCPUs for each pCPU: the overcommit",
        unit: Unit::Times,
        get: Point::overcommit,
    },
    Column {
        name: "floor",
        about: "one operation of one thread without a lock: work, and the cost of the harness",
        unit: Unit::Time,
        get: |p| p.floor_ns,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_views_have_only_columns_that_exist() {
        let names: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
        let views =
            [THREADS, LOCK_TIME, THREAD_TIME, VCPUS, FAIRNESS, YIELDS, TIMER, IMAGE, IMAGE_WAITS];
        for name in views.into_iter().flatten() {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn what_a_point_does_not_have_is_not_shown() {
        let ops = Interval { median: 1.5e6, low: 1.0, high: 2e6 };
        let point = Point { ops_per_s: Some(ops), cpus: Some(4), ..Point::default() };
        let show = |name: &str| Column::named(name).unwrap().show(&point);
        assert_eq!(show("ops/s").as_deref(), Some("1.50 M"));
        assert_eq!(show("CPUs").as_deref(), Some("4"));
        for none in ["of best", "asked/s", "reads/s", "held", "over", "halts"] {
            assert_eq!(show(none), None, "{none}");
        }
        assert_eq!(Column::named("ops low").unwrap().heading(), "low");
    }
}
