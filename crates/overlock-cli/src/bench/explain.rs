// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `bench --explain`: where the time of a lock and of its threads went.
//!
//! The lock's time comes from separate runs, in which every operation is logged (see
//! `timeline.rs`); the threads' time comes from the kernel's accounts of the ordinary runs (see
//! `sched.rs`), so it is undisturbed.

use super::results::{LockRuns, PointRuns};
use crate::stats;
use crate::table::Table;
use crate::units::{count, three, time};
use overlock_bench::RunSample;
use overlock_bench::Timeline;
use serde::Serialize;

/// One lock at one point; medians over the rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    kind: &'static str,
    lock: &'static str,
    cpus: usize,
    cs_ns: u64,
    ncs_ns: u64,
    point: String,
    /// Shares of the lock's time; they are those of the logged runs.
    held: f64,
    stopped: f64,
    hand_over: f64,
    kept: f64,
    unseen: f64,
    unwanted: f64,
    /// Critical sections that a thread has before another gets the lock.
    turn: f64,
    /// The longest time for which the lock was free though wanted, in any round.
    longest_unseen_ns: f64,
    /// Throughput of the logged runs over that of the ordinary ones.
    speed: f64,
    /// CPUs that did the work of critical sections and pauses, that waited, and that ran the
    /// kernel, which is part of both.
    working: f64,
    waiting: f64,
    system: f64,
    /// Threads that were ready and had no CPU, and that slept; absent if the kernel doesn't tell.
    queued: Option<f64>,
    asleep: Option<f64>,
    /// Switches of threads that went to sleep, and of those that lost their CPU or yielded it.
    voluntary_per_s: f64,
    involuntary_per_s: f64,
}

/// Explains one lock at one point; returns nothing if no run of it was logged.
fn explain(runs: &PointRuns, lock: &LockRuns) -> Option<Explained> {
    let point = runs.point;
    let timelines: Vec<Timeline> = lock.logged.iter().filter_map(|run| run.timeline).collect();
    let share =
        |pick: fn(&Timeline) -> f64| stats::median(&timelines.iter().map(pick).collect::<Vec<_>>());
    let logged: Vec<f64> = lock.logged.iter().map(|run| run.ops_per_s).collect();
    let working = lock.median(|sample| runs.working(sample));
    let cpu = lock.median(|sample| sample.sched.cpu);
    let queued: Option<Vec<f64>> = lock.samples.iter().map(|sample| sample.sched.queued).collect();
    let queued = queued.and_then(|queued| stats::median(&queued));
    Some(Explained {
        kind: "explain",
        lock: lock.lock.name,
        cpus: point.threads,
        cs_ns: point.cs.0,
        ncs_ns: point.ncs.0,
        point: point.to_string(),
        held: share(|of| of.held)?,
        stopped: share(|of| of.stopped)?,
        hand_over: share(|of| of.hand_over)?,
        kept: share(|of| of.kept)?,
        unseen: share(|of| of.unseen)?,
        unwanted: share(|of| of.unwanted)?,
        turn: share(|of| of.turn)?,
        longest_unseen_ns: timelines.iter().map(|of| of.longest_unseen_ns).fold(0.0, f64::max),
        speed: stats::median(&logged)? / lock.ops_per_s(),
        working,
        waiting: (cpu - working).max(0.0),
        system: lock.median(|sample| sample.sched.system),
        queued,
        asleep: queued.map(|queued| (point.threads as f64 - cpu - queued).max(0.0)),
        voluntary_per_s: lock.median(|sample| sample.sched.voluntary_per_s),
        involuntary_per_s: lock.median(|sample| sample.sched.involuntary_per_s),
    })
}

impl PointRuns {
    /// Returns the CPUs that worked: the time of the operations of a run without a lock.
    ///
    /// Where lengths change in the middle, the floor has both halves, each for half of the time.
    fn working(&self, sample: &RunSample) -> f64 {
        let extra = self.point.cs.0 as f64 * f64::from(self.point.uneven - 1);
        let first = sample.ops.first().copied().unwrap_or(0) as f64 / sample.seconds;
        (sample.ops_per_s * self.floor_ns + first * extra) / 1e9
    }
}

/// Explains all locks at one point, the fastest first.
pub(crate) fn all(runs: &PointRuns) -> Vec<Explained> {
    runs.ranked().into_iter().filter_map(|lock| explain(runs, lock)).collect()
}

/// Formats the table for people.
pub(crate) fn table(runs: &PointRuns, all: &[Explained]) -> String {
    let mut lock = Table::new(&[
        "lock's time",
        "held",
        "stopped",
        "hand-over",
        "kept",
        "unseen",
        "unwanted",
        "longest",
        "turn",
        "speed",
    ]);
    let mut threads = Table::new(&[
        "threads",
        "working",
        "waiting",
        "(kernel)",
        "queued",
        "asleep",
        "switches/s",
        "lost CPU/s",
    ]);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let number = |value: f64| format!("{value:.2}");
    for of in all {
        let shares =
            [of.held, of.stopped, of.hand_over, of.kept, of.unseen, of.unwanted].map(percent);
        let mut cells = vec![of.lock.to_owned()];
        cells.extend(shares);
        cells.extend([time(of.longest_unseen_ns), three(of.turn), number(of.speed)]);
        lock.row(cells);
        let mut cells = vec![of.lock.to_owned()];
        cells.extend([of.working, of.waiting, of.system].map(number));
        cells.extend([of.queued, of.asleep].map(|of| of.map_or_else(|| "-".into(), number)));
        cells.extend([of.voluntary_per_s, of.involuntary_per_s].map(count));
        threads.row(cells);
    }
    format!("Where the time went: {}\n{lock}\n{threads}", runs.point)
}
