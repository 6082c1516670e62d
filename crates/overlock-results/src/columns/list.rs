//! All columns, each with its name, its unit, what it means, and how to get it; and the views that
//! show them.

use super::Unit::{Count, Hundredths, Ratio, Share, Time, Times, Whole};
use super::{Column, Unit, View};
use crate::row::{Asked, Point};
use crate::run::Run;
use crate::stats::Interval;

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
pub const IMAGE_WAITS: &View = "CPUs, halts, kicked, overdue, stray, early, kicks, hypercalls, halt exits, stale, futile, \
    stolen turns";

const fn column(
    name: &'static str,
    unit: Unit,
    about: &'static str,
    get: fn(&Point) -> Option<f64>,
) -> Column {
    Column { name, about, unit, get }
}

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

/// The ends of a point's interval, which one round does not have.
fn ends(point: &Point) -> Option<Interval> {
    point.ops_per_s.filter(|_| point.samples.len() != 1)
}

/// Makes [`COLUMNS`], each of name, unit, what it means, and how to get it. A ratio makes two
/// more, for the ends of its interval.
macro_rules! columns {
    (
        first { $($first:literal $first_unit:ident $first_about:literal => $first_get:expr;)* }
        ratios { $($of:ident $name:literal $about:literal;)* }
        then { $($then:literal $then_unit:ident $then_about:literal => $then_get:expr;)* }
    ) => {
        pub const COLUMNS: &[Column] = &[
            $(column($first, $first_unit, $first_about, $first_get),)*
            $(
                column($name, Ratio, $about, |p| Some(p.$of?.median)),
                column(concat!($name, " low"), Ratio, "the lower end of its interval", |p| {
                    Some(p.$of?.low)
                }),
                column(concat!($name, " high"), Ratio, "the upper end", |p| Some(p.$of?.high)),
            )*
            $(column($then, $then_unit, $then_about, $then_get),)*
        ];
    };
}

columns! {
    first {
        "ops/s" Count "operations per second of all threads or vCPUs together; median over rounds"
            => |p| Some(p.ops_per_s?.median);
        "ops low" Count "the lower end of its interval" => |p| Some(ends(p)?.low);
        "ops high" Count "the upper end" => |p| Some(ends(p)?.high);
    }
    ratios {
        of_best_peer "of best" "throughput over that of the best peer at this point, by rounds";
        of_1x "of 1x" "throughput over that of the same with one vCPU for each pCPU, by rounds";
        of_limit "of hand-over"
            "throughput over that of hand-overs alone, the most that a lock in strict order can do";
        of_native "of native"
            "throughput over that of the native build of the same lock, by rounds";
        of_native_ticket "of native-ticket"
            "throughput over that of the ticket lock that only spins, by rounds";
        of_report "of report"
            "throughput over that of the same where vCPUs report spins and none yields";
        of_none "of none" "throughput over that of the same without a yield policy";
        of_robin "of robin" "throughput over that of the same under round-robin";
        of_oracle "of oracle" "throughput over that of the same under the policy that always knows";
        of_mutex "of mutex" "reads of the PM timer over those under the rule mutex";
        of_refresh "of refresh" "reads of the PM timer over those under the rule refresh";
        of_baseline "of baseline"
            "how many times better than the baseline, by rounds; above 1 is better";
    }
    then {
        "figure" Ratio
            "the compared figure of a program: its own, or wall time in seconds; median over rounds"
            => |p| Some(p.value?.median);
        "p50" Time "the median wait for the lock; a lock that was free counts as 0"
            => |p| Some(p.wait_ns?.p50 as f64);
        "p99" Time "99 % of the waits are no longer" => |p| Some(p.wait_ns?.p99 as f64);
        "p99.9" Time "99.9 % of the waits are no longer" => |p| Some(p.wait_ns?.p999 as f64);
        "longest" Time "the longest wait that ended, in any round"
            => |p| Some(p.wait_ns?.max as f64);
        "stall" Time
            "the longest time that any thread or vCPU waited for the lock, even if it never got it"
            => |p| Some(p.longest_stall_ns? as f64);
        "write stall" Time "the same of those that wanted to write, where others read"
            => |p| Some(p.write_stall_ns? as f64);
        "Jain" Hundredths "Jain's index of fairness: 1 all did the same, 1/n one did everything"
            => |p| p.jain;
        "least" Count "operations in a run of the thread or vCPU that did the least"
            => |p| Some(p.ops_per_cpu?.min as f64);
        "average" Count "operations of the average one" => |p| Some(p.ops_per_cpu?.avg);
        "most" Count "operations of the one that did the most"
            => |p| Some(p.ops_per_cpu?.max as f64);
        "least served" Hundredths
            "operations of the one that did the least over those of the average one"
            => |p| p.median(Run::least_served);
        "unfair" Share "the share of acquisitions that overtook a queue" => |p| p.unfair_share;
        "CPU/s" Hundredths "CPU seconds used in a second: the price of waiting"
            => |p| Some(p.cpu_s_per_s).filter(|used| *used > 0.0);
        "CPU/op" Time "CPU time of all threads for an operation, work and waiting together"
            => |p| Some(1e9 * p.cpu_s_per_s / p.ops()).filter(|ns| ns.is_finite() && *ns > 0.0);
        "neighbours" Share "CPU time of the busy processes beside, of what they have alone"
            => |p| p.neighbours;
        "spin/s" Hundredths "CPU seconds in a second that went into waiting for locks"
            => |p| p.spin_s_per_s;
        "steal/s" Hundredths
            "seconds in a second for which vCPUs were ready without a pCPU, all together"
            => |p| p.steal_s_per_s;
        "exits/s" Count "how often per second a vCPU left the guest"
            => |p| p.median(Run::exits_per_s).filter(|_| !p.exits.is_empty());
        "slices/s" Count "slices per second that ended with a preemption" => |p| p.slices_per_s;
        "of nominal" Hundredths "the nominal length of slices over their actual length"
            => |p| p.slices_of_nominal;
        "asked/s" Count "spins and kicks per second that the yield policy had to decide on"
            => |p| asked(p, |asked, seconds| asked.times / seconds);
        "yielded" Share "the share of these that let another vCPU run"
            => |p| asked(p, |asked, _| asked.yielded / asked.times);
        "right" Share "the share known to have run the vCPU that was waited for"
            => |p| asked(p, |asked, _| asked.hits / asked.times);
        "reads/s" Count "reads of the PM timer per second"
            => |p| timer(p, |run| run.exit_per_s("pm-timer"));
        "read" Time "how long one takes on average" => |p| Some(p.timer_read_ns?.median);
        "in reads" Share
            "the share of the CPU time between asking for the PM timer and having its value"
            => |p| timer(p, Run::timer_share);
        "backwards" Whole "reads that went backwards: must be 0"
            => |p| timer(p, |_| 0.0).and(Some(p.timer_backwards? as f64));
        "lost" Whole "updates under the lock that were lost: must be 0"
            => |p| Some(p.lost.filter(|lost| *lost > 0)? as f64);
        "held" Share "share of the time in which the lock was held by a running thread"
            => |p| Some(p.spent?.held);
        "stopped" Share "share in which it was held by a thread without a CPU"
            => |p| Some(p.spent?.stopped);
        "hand-over" Share
            "share in which it was free and wanted, for at most 1 us, before another thread had it"
            => |p| Some(p.spent?.hand_over);
        "kept" Share "the same before the same thread had it again" => |p| Some(p.spent?.kept);
        "unseen" Share "share in which it was free and wanted for longer: no thread looked"
            => |p| Some(p.spent?.unseen);
        "unwanted" Share "share in which no thread wanted it" => |p| Some(p.spent?.unwanted);
        "longest unseen" Time "the longest time for which the lock was free though wanted"
            => |p| Some(p.spent?.longest_unseen_ns);
        "turn" Ratio "critical sections that a thread has before another gets the lock"
            => |p| Some(p.spent?.turn);
        "speed" Hundredths
            "throughput of the run whose operations were logged over that of the ordinary one"
            => |p| Some(p.spent?.speed);
        "working" Hundredths "CPUs that did the work of critical sections and pauses" => working;
        "waiting" Hundredths "CPUs that waited" => |p| Some((p.sched?.cpu - working(p)?).max(0.0));
        "kernel" Hundredths "CPUs in the kernel, a part of both" => |p| Some(p.sched?.system);
        "queued" Hundredths "threads that were ready and had no CPU" => |p| p.sched?.queued;
        "asleep" Hundredths "threads that slept"
            => |p| Some((f64::from(p.cpus?) - p.sched?.cpu - p.sched?.queued?).max(0.0));
        "switches/s" Count "switches per second of threads that went to sleep"
            => |p| Some(p.sched?.voluntary_per_s);
        "lost CPU/s" Count "switches per second of threads that lost their CPU or yielded it"
            => |p| Some(p.sched?.involuntary_per_s);
        "halts" Count "waits that halted (polls under Xen); all rounds together"
            => |p| event(p, "halts");
        "kicked" Count "of these, ended by a kick; all rounds together" => |p| event(p, "kicked");
        "overdue" Count "ended by their deadline; all rounds together" => |p| event(p, "overdue");
        "stray" Count "ended otherwise; all rounds together" => |p| event(p, "stray");
        "early" Count "the word had changed before the halt; all rounds together"
            => |p| event(p, "early");
        "kicks" Count "kicks that were sent; all rounds together" => |p| event(p, "kicks");
        "hypercalls" Count "hypercalls that KVM counted; all rounds together"
            => |p| event(p, "hypercalls");
        "halt exits" Count "halts that KVM counted; all rounds together"
            => |p| event(p, "halt_exits");
        "stale" Count "kicks found by a later wait; all rounds together" => |p| event(p, "stale");
        "futile" Count "halts that ended with the word as it was; all rounds together"
            => |p| event(p, "futile");
        "stolen turns" Count "acquisitions that passed the queue; all rounds together"
            => |p| event(p, "pv_lock_stealing");
        "CPUs" Whole "threads, or vCPUs" => |p| Some(f64::from(p.cpus?));
        "over" Times "threads for each CPU, or vCPUs for each pCPU: the overcommit"
            => Point::overcommit;
        "floor" Time "one operation of one thread without a lock: work, and the cost of the harness"
            => |p| p.floor_ns;
    }
}

impl Column {
    pub fn named(name: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.name == name)
    }
}
