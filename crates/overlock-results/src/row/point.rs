//! One lock at one point, from any world: its runs, and the medians, sums and ratios that follow.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::locks::Lock;
use crate::run::{Losses, Name, Run, Sched, Spent, WaitNs, always, fields, known};
use crate::stats::{Interval, Spread, coverage, median, merged};
use crate::units::{DurationArg, counted};
use crate::{Lengths, Task};

fields! {
    /// A point of results. Fields that a world has no answer for are absent.
    Point
    "always" {
        world: String,
        /// The workload's name; a program's command.
        workload: String,
        lock: String,
        policy: String,
    }
    "known" {
        timer: Option<String>,
    }
    "always" {
        cpus: Option<u32>,
        /// CPUs or pCPUs that they share.
        pcpus: Option<u32>,
        /// Nanoseconds of a critical section.
        cs_ns: Option<u64>,
        /// Nanoseconds between sections.
        ncs_ns: Option<u64>,
    }
    "known" {
        sections: Option<u32>,
        /// The share of what hand-overs allow that chose the work between critical sections, if it
        /// did.
        contention: Option<f64>,
        lengths: Option<Lengths>,
        locks_count: Option<u32>,
        then_ns: Option<[u64; 2]>,
        uneven: Option<u32>,
        task: Option<Task>,
        beside: Option<u32>,
        paravirtual: Option<bool>,
        slice_ns: Option<u64>,
        pause_window_ns: Option<u64>,
        sample_ns: Option<u64>,
        grace_ns: Option<u64>,
    }
    "always" {
        seconds: f64,
        samples: Vec<Run>,
        ops_per_s: Option<Interval>,
        ops_per_cpu: Option<Spread>,
        jain: Option<f64>,
        /// Waits: medians of each run's percentiles, and the longest of all.
        wait_ns: Option<WaitNs>,
        wait_counts: Vec<(u64, u64)>,
        longest_stall_ns: Option<u64>,
    }
    "known" {
        write_stall_ns: Option<u64>,
    }
    "always" {
        cpu_s_per_s: f64,
    }
    "known" {
        neighbours: Option<f64>,
    }
    "always" {
        /// Events in the lock, of all runs together.
        counters: BTreeMap<Name, u64>,
        /// Probability that an interval of this row covers its true median.
        interval_coverage: f64,
        steal: f64,
    }
    "known" {
        lost: Option<u64>,
        /// Throughput over the best peer's, round by round. The peer is chosen by the other rounds.
        of_best_peer: Option<Interval>,
        best_peer: Option<String>,
        /// An operation of one thread without a lock, work included.
        floor_ns: Option<f64>,
        of_1x: Option<Interval>,
        of_none: Option<Interval>,
        of_report: Option<Interval>,
        of_robin: Option<Interval>,
        of_oracle: Option<Interval>,
        of_native: Option<Interval>,
        of_native_ticket: Option<Interval>,
        of_limit: Option<Interval>,
        of_mutex: Option<Interval>,
        of_refresh: Option<Interval>,
        long_stalls: Option<u64>,
        spent: Option<Spent>,
        sched: Option<Sched>,
        spin_s_per_s: Option<f64>,
        steal_s_per_s: Option<f64>,
        run_delay_s_per_s: Option<f64>,
        slices_per_s: Option<f64>,
        slices_of_nominal: Option<f64>,
        wake_ns: Option<u64>,
        publishes: Option<bool>,
        /// The share of acquisitions that overtook a queue; absent for locks that never do.
        unfair_share: Option<f64>,
        exits: BTreeMap<Name, u64>,
        yields: BTreeMap<String, u64>,
        yield_hits: Option<u64>,
        timer_read_ns: Option<Interval>,
        timer_backwards: Option<u64>,
        /// A program's own figure: how it was read.
        metric: Option<String>,
        higher_is_better: Option<bool>,
        value: Option<Interval>,
        library: Option<String>,
        baseline: Option<String>,
        of_baseline: Option<Interval>,
        explanation: Vec<String>,
    }
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// How often the host was asked whether another vCPU should run instead.
    pub times: f64,
    /// How often another vCPU did.
    pub yielded: f64,
    /// How often that is known to be the vCPU that was waited for.
    pub hits: f64,
}

impl Point {
    /// Computes medians and sums of the samples. `reads` is true where vCPUs read the PM timer.
    pub fn sum_up(&mut self, reads: bool) {
        let runs = &self.samples;
        let each = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<_>>();
        let mid = |of: &dyn Fn(&Run) -> f64| median(&each(of)).unwrap_or(0.0);
        let worst = |of: &dyn Fn(&Run) -> f64| each(of).into_iter().fold(0.0, f64::max);
        let sum = |of: &dyn Fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
        self.seconds = mid(&|run| run.seconds);
        self.ops_per_s = Interval::of(&each(&|run| run.ops_per_s));
        self.ops_per_cpu = Some(Spread {
            min: whole(mid(&|run| run.ops_per_cpu.min as f64)),
            avg: mid(&|run| run.ops_per_cpu.avg),
            max: whole(mid(&|run| run.ops_per_cpu.max as f64)),
        });
        self.jain = Some(mid(&|run| run.jain));
        self.wait_ns = Some(WaitNs::over(runs));
        self.wait_counts = merged(runs.iter().map(|run| &run.wait_counts[..]));
        self.longest_stall_ns = Some(whole(worst(&Run::stall_ns)));
        self.write_stall_ns = runs.iter().filter_map(|run| run.write_stall_ns).max();
        self.cpu_s_per_s = mid(&|run| run.cpu_s_per_s);
        self.neighbours = median(&runs.iter().filter_map(|run| run.neighbours).collect::<Vec<_>>());
        self.counters = sums(runs, |run| &run.counters);
        self.interval_coverage = coverage(runs.len());
        self.steal = mid(&|run| run.steal);
        self.lost = Some(sum(&|run| run.lost));
        let longest = worst(&|run| run.spent.map_or(0.0, |of| of.longest_unseen_ns));
        self.spent = medians(runs.iter().filter_map(|run| run.spent));
        self.spent = self.spent.map(|of| Spent { longest_unseen_ns: longest, ..of });
        self.sched = medians(runs.iter().filter_map(|run| run.sched));
        if !self.takers().has_host() {
            self.long_stalls = Some(sum(&|run| run.long_stalls));
            return;
        }
        self.spin_s_per_s = Some(mid(&|run| run.spin_s_per_s));
        self.steal_s_per_s = Some(mid(&|run| run.steal_s_per_s));
        self.run_delay_s_per_s = Some(mid(&|run| run.run_delay_s_per_s));
        self.slices_per_s = Some(mid(&|run| run.slices_per_s));
        self.slices_of_nominal = Some(mid(&|run| run.slices_of_nominal));
        self.wake_ns = Some(whole(mid(&|run| run.wake_ns as f64)));
        self.publishes = Some(runs.iter().any(|run| run.publishes));
        self.exits = sums(runs, |run| &run.exits);
        self.yields = sums(runs, |run| &run.yields);
        self.yield_hits = Some(sum(&|run| run.yield_hits));
        self.timer_read_ns = Interval::of(&each(&|run| run.timer_read_ns)).filter(|_| reads);
        self.timer_backwards = Some(sum(&|run| run.timer_backwards));
        let sections = f64::from(self.sections.unwrap_or(0));
        let is_unfair = Lock::named(&self.lock).is_some_and(|lock| lock.family() == "hybrid");
        self.unfair_share = (is_unfair && sections > 0.0).then(|| {
            mid(&|run| {
                let taken = run.ops_per_s * run.seconds * sections;
                let overtook = run.counted("pv_lock_stealing") as f64;
                if taken > 0.0 { overtook / taken } else { 0.0 }
            })
        });
    }

    pub fn each(&self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    pub fn median(&self, figure: impl Fn(&Run) -> f64) -> Option<f64> {
        median(&self.each(figure))
    }

    /// `figure` here over that of `other`, round by round. A round in which the other's is zero is
    /// no measurement, and left out; nothing if none is left.
    pub fn over(&self, other: &Self, figure: impl Fn(&Run) -> f64) -> Option<Interval> {
        Interval::of(&self.rounds_over(other, figure))
    }

    pub fn rounds_over(&self, other: &Self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let pairs = self.each(&figure).into_iter().zip(other.each(&figure));
        pairs.filter(|(_, base)| *base > 0.0).map(|(own, base)| own / base).collect()
    }

    pub fn ops(&self) -> f64 {
        self.ops_per_s.map_or(0.0, |ops| ops.median)
    }

    /// vCPUs for each pCPU, or threads for each CPU.
    pub fn overcommit(&self) -> Option<f64> {
        let (cpus, pcpus) = (self.cpus?, self.pcpus.filter(|pcpus| *pcpus > 0)?);
        Some(f64::from(cpus) / f64::from(pcpus))
    }

    pub fn total_seconds(&self) -> f64 {
        self.samples.iter().map(|run| run.seconds).sum()
    }

    pub fn asked(&self) -> Asked {
        let sum = |kind: &str| -> f64 {
            let of_kind = self.yields.iter().filter(|(code, _)| code.starts_with(kind));
            of_kind.map(|(_, count)| *count as f64).sum()
        };
        let yielded = sum("directed:") + sum("plain:");
        let hits = self.yield_hits.unwrap_or(0) as f64;
        Asked { times: yielded + sum("stayed:"), yielded, hits }
    }

    /// The reasons of one kind of yield (`directed`, `plain`, `stayed`, `skipped`), the most
    /// frequent first.
    pub fn reasons(&self, kind: &str) -> Vec<(&str, u64)> {
        let of_kind = self.yields.iter().filter_map(|(code, count)| {
            let (of, why) = code.split_once(':')?;
            (of == kind).then_some((why, *count))
        });
        let mut reasons: Vec<_> = of_kind.collect();
        reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        reasons
    }

    /// The losses by waiting for each lock, in all runs together.
    pub fn losses(&self) -> Vec<Losses> {
        let count = self.samples.iter().map(|run| run.locks.len()).max().unwrap_or(0);
        let mut sums = vec![Losses::default(); count];
        for run in &self.samples {
            for (sum, lock) in sums.iter_mut().zip(&run.locks) {
                sum.waited_ns += lock.waited_ns;
                sum.holder_off_ns += lock.holder_off_ns;
                sum.next_off_ns += lock.next_off_ns;
                sum.debtor_off_ns += lock.debtor_off_ns;
            }
        }
        sums
    }

    pub fn place(&self) -> String {
        self.place_itself() + &beside(self.beside)
    }

    /// [`place`](Self::place), without what runs beside.
    pub(crate) fn place_itself(&self) -> String {
        let threads = counted(self.cpus.unwrap_or(0), "thread");
        let [cs, ncs] = [self.cs_ns, self.ncs_ns].map(|ns| DurationArg(ns.unwrap_or(0)));
        format!("{threads}, cs {cs}, ncs {ncs}, {}", self.shape())
    }

    /// The spread of the lengths, and anything else that is not plain.
    pub fn shape(&self) -> String {
        let mut shape = self.lengths.map_or_else(String::new, |lengths| lengths.to_string());
        if let Some(then) = self.then_ns {
            let [cs, ncs] = then.map(DurationArg);
            shape += &format!(", then {cs}/{ncs}");
        }
        if let Some(locks) = self.locks_count.filter(|locks| *locks > 1) {
            shape += &format!(", {locks} locks");
        }
        if let Some(times) = self.uneven.filter(|times| *times > 1) {
            shape += &format!(", one holds {times}x");
        }
        shape + &self.use_of_lock()
    }

    /// What the lock is used for, if not only to exclude one another.
    pub fn use_of_lock(&self) -> String {
        match self.task {
            None => String::new(),
            Some(Task::Read(percent)) => format!(", {percent} % reads"),
            Some(task) => format!(", {task}"),
        }
    }

    /// Whether this point and the other have the same workload and host, so that they take turns.
    pub fn takes_turns_with(&self, other: &Self) -> bool {
        let group = |point: &Self| {
            let Self { workload, cs_ns, ncs_ns, contention, then_ns, .. } = point;
            (workload.clone(), *cs_ns, *ncs_ns, *contention, *then_ns, point.pcpus)
        };
        let shape = |point: &Self| {
            (point.lengths, point.locks_count, point.uneven, point.task, point.beside)
        };
        self.world == other.world && group(self) == group(other) && shape(self) == shape(other)
    }
}

pub fn beside(count: Option<u32>) -> String {
    match count {
        None => String::new(),
        Some(1) => ", beside 1 busy process".into(),
        Some(count) => format!(", beside {count} busy processes"),
    }
}

fn sums<K: Clone + Ord>(
    runs: &[Run],
    counts: impl Fn(&Run) -> &BTreeMap<K, u64>,
) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in runs.iter().flat_map(counts) {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

/// The median of each number that these have, by its name; nothing if there are none. What one of
/// them does not know is not known of all.
fn medians<T: Serialize + DeserializeOwned>(all: impl Iterator<Item = T>) -> Option<T> {
    let all: Option<Vec<Value>> = all.map(|one| serde_json::to_value(one).ok()).collect();
    let all = all.filter(|all| !all.is_empty())?;
    let mid = |name: &String| {
        let each: Option<Vec<f64>> = all.iter().map(|one| one[name].as_f64()).collect();
        each.and_then(|each| median(&each))
    };
    let names = all[0].as_object()?.keys();
    serde_json::from_value(names.map(|name| (name.clone(), json!(mid(name)))).collect()).ok()
}
