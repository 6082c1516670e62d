//! `--check`: the bounds that Overlock promises, judged point by point from rows, fresh or of a
//! file.

use crate::NO_POLICY;
use crate::judge::bound::judge;
use crate::locks::{Build, Lock};
use crate::row::Side::{self, AtLeast, AtMost};
use crate::row::{Check, Limited, Pair, Point, Row, geomeans};
use crate::stats::Interval;
use crate::units::{count, three};
use crate::{Run, Takers, Task};

/// Up to this many threads, no thread should ever be seen to stall.
pub(crate) const CALM_THREADS: u32 = 16;

type Bound = (&'static str, Side, f64);

// Threads. Throughput of the hybrid lock over that of the best peer: at each point; where sections
// and pauses are empty; on average.
const EACH: Bound = ("throughput over best peer", AtLeast, 0.85);
const BARE: Bound = ("throughput over best peer", AtLeast, 0.9);
const MEAN: Bound = ("geometric mean of throughput over best peer", AtLeast, 1.0);
// Its tail where sections and pauses are empty.
const BARE_TAIL: Bound = ("p99.9 over the best peer's", AtMost, 1.0);
const BARE_STALL: Bound = ("longest stall over the best peer's", AtMost, 1.0);
const JAIN: Bound = ("Jain index", AtLeast, 0.95);
const STALL: Bound = ("longest stall over parking-lot's", AtMost, 1.0);
// Queue locks that halt do not collapse where one that spins does, at 16 threads.
const NO_COLLAPSE: Bound = ("throughput over spin-ticket", AtLeast, 10.0);
const NO_COLLAPSE_THREADS: u32 = 16;
const PAIR: Bound = ("uncontended pair over std's", AtMost, 0.55);
// Pairs of the others can differ by code alignment alone; 3 % is the largest effect that was seen.
const OTHER_PAIR: Bound = ("uncontended pair over std's", AtMost, 1.03);
const TICKET_PAIR: Bound = ("uncontended pair over spin-ticket's", AtMost, 1.03);

// The read-write lock over the best peer: where few operations write, and where half of them do,
// for which there is no bound at each point.
const READS: Bound = ("mean throughput over best peer, 90 % reads or more", AtLeast, 1.0);
const HALF_READS: Bound = ("mean throughput over best peer, half reads", AtLeast, 0.95);
const MANY_READS: u8 = 90;
const HALF_READ: u8 = 50;
const WRITE_STALL: Bound = ("longest stall of writers over parking-lot-rwlock's", AtMost, 1.0);
const READ_PAIRS: [(Bound, &str); 2] = [
    (("uncontended read pair over std-rwlock's", AtMost, 0.6), "std-rwlock"),
    (("uncontended read pair over parking-lot-rwlock's", AtMost, 0.6), "parking-lot-rwlock"),
];
// Condition variables with the hybrid lock.
const WAITS: Bound = ("mean throughput over best peer, waits for conditions", AtLeast, 1.0);
const EACH_WAIT: Bound = ("throughput over best peer", AtLeast, 0.9);

// vCPUs. A lock that only spins, over its own throughput at 1x, with 8 vCPUs.
const COLLAPSE: Bound = ("native throughput over 1x", AtMost, 0.05);
const COLLAPSE_CPUS: u32 = 8;
// The hybrid lock over its own throughput at 1x, up to 16x; and its least served vCPU, up to 8x.
const HYBRID: Bound = ("throughput over 1x", AtLeast, 0.8);
const HYBRID_OVER: f64 = 16.0;
const LEAST_SERVED: Bound = ("least served vCPU over average", AtLeast, 0.85);
const LEAST_SERVED_OVER: f64 = 8.0;
// The paravirtual build, switched off, at 1x.
const OFF: Bound = ("switched off over native", AtLeast, 0.98);
// Locks in strict order.
const OF_LIMIT: Bound = ("throughput over hand-over", AtLeast, 0.5);
const OF_NATIVE: Bound = ("throughput over native-ticket", AtLeast, 10.0);
// Where the demand is half of what hand-overs allow.
const HALF: Bound = ("throughput over 1x", AtLeast, 0.8);
const OF_ROBIN: Bound = ("throughput over round-robin", AtLeast, 1.0);
const OF_ORACLE: Bound = ("throughput over oracle", AtLeast, 0.9);
// The lock-free read of the PM timer.
const OF_REFRESH: Bound = ("reads of the timer over refresh", AtLeast, 1.0);

pub fn check(rows: &[Row]) -> Vec<Check> {
    let points: Vec<Point> = rows.iter().filter_map(Row::point).cloned().collect();
    let pairs = rows.iter().filter_map(|row| match row {
        Row::Pair(pair) => Some(pair),
        _ => None,
    });
    let mut checks: Vec<Check> = Vec::new();
    for point in &points {
        match point.takers() {
            Takers::Threads => checks.extend(of_threads(point, &points)),
            _ => checks.extend(of_vcpus(point)),
        }
    }
    if points.iter().any(|point| point.takers() == Takers::Threads) {
        checks.extend(of_all(&points));
    }
    let pairs: Vec<&Pair> = pairs.collect();
    checks.extend(pairs.iter().flat_map(|pair| of_pair(pair, &pairs)));
    checks.extend(rows.iter().filter_map(told));
    checks
}

/// What a row says of itself: a kernel's check, or the runs of a lock under `torture`.
fn told(row: &Row) -> Option<Check> {
    match row {
        Row::Check(check) if check.limited.is_none() => Some(check.clone()),
        Row::Torture(of) => {
            let what = format!("{} runs of {} under torture", count(of.runs as f64), of.lock);
            Some(Check::plain(&what, &of.world, !of.failed, ""))
        }
        Row::TortureFailure(of) => {
            let what = format!("run {} of {} under torture", of.run, of.lock);
            Some(Check::plain(&what, &of.world, false, &of.text))
        }
        _ => None,
    }
}

fn made(
    (bound, side, limit): Bound,
    lock: Option<&str>,
    place: String,
    value: Option<Interval>,
) -> Option<Check> {
    let value = value?;
    let verdict = judge(value, side, limit);
    let (bound, lock) = (bound.to_owned(), lock.map(str::to_owned));
    let limited = Some(Limited { side, limit, value });
    Some(Check { bound, lock, place, limited, verdict, note: None })
}

/// Judges the means over the points of each kind, and the longest stall at any of them.
fn of_all(points: &[Point]) -> Vec<Check> {
    let with = |is: &dyn Fn(Task) -> bool| -> Vec<Point> {
        points.iter().filter(|point| is(point.task.unwrap_or_default())).cloned().collect()
    };
    let plain = with(&|task| task == Task::Exclude);
    let reads = with(&Task::reads);
    let many = with(&|task| task.read_share() >= MANY_READS);
    let half = with(&|task| task == Task::Read(HALF_READ));
    let waits = with(&Task::waits);
    let mean = |lock: &str, points: &[Point]| Interval::of(&geomeans(lock, points));
    let write_stall = |run: &Run| run.write_stall_ns.map_or(0.0, |ns| ns as f64);
    let (mutexes, locks) = (("hybrid", "parking-lot"), ("rwlock", "parking-lot-rwlock"));
    let checks = [
        (MEAN, mutexes.0, mean(mutexes.0, &plain)),
        (STALL, mutexes.0, longest(&plain, mutexes, Run::stall_ns)),
        (READS, locks.0, mean(locks.0, &many)),
        (HALF_READS, locks.0, mean(locks.0, &half)),
        (WRITE_STALL, locks.0, longest(&reads, locks, write_stall)),
        (WAITS, mutexes.0, mean(mutexes.0, &waits)),
    ];
    let made = |(bound, lock, value)| made(bound, Some(lock), "all points".into(), value);
    checks.into_iter().filter_map(made).collect()
}

fn of_threads(point: &Point, all: &[Point]) -> Vec<Check> {
    let of = |bound, value| made(bound, Some(&point.lock), point.place(), value);
    match point.task {
        None => {}
        Some(task) if task.waits() && point.lock == "hybrid" => {
            return of(EACH_WAIT, point.of_best_peer).into_iter().collect();
        }
        Some(task) if task.read_share() >= MANY_READS && point.lock == "rwlock" => {
            return of(EACH, point.of_best_peer).into_iter().collect();
        }
        Some(_) => return Vec::new(),
    }
    let rivals = || all.iter().filter(|of| point.takes_turns_with(of) && of.cpus == point.cpus);
    let rival = |name: &str| rivals().find(|of| of.lock == name);
    let mut checks = Vec::new();
    let is_contended = point.cpus > Some(1);
    let is_bare = (point.cs_ns, point.ncs_ns, point.then_ns) == (Some(0), Some(0), None);
    if point.lock == "hybrid" {
        let is_bare = is_bare && is_contended;
        checks.extend(of(if is_bare { BARE } else { EACH }, point.of_best_peer));
        if let Some(peer) = point.best_peer.as_deref().and_then(rival).filter(|_| is_bare) {
            checks.extend(of(BARE_TAIL, point.over(peer, |run| run.wait_ns.p999 as f64)));
            checks.extend(of(BARE_STALL, point.over(peer, Run::stall_ns)));
        }
        let is_calm = is_contended && point.cpus <= Some(CALM_THREADS);
        if is_calm && point.uneven.unwrap_or(1) == 1 {
            let rounds = point.samples.iter().filter_map(Run::fairness).collect::<Vec<_>>();
            checks.extend(of(JAIN, Interval::of(&rounds)));
        }
    }
    if ["ticket", "queued"].contains(&&*point.lock) && point.cpus == Some(NO_COLLAPSE_THREADS) {
        let over = rival("spin-ticket").and_then(|other| point.over(other, |run| run.ops_per_s));
        checks.extend(of(NO_COLLAPSE, over));
    }
    checks
}

/// The longest stall of each round, at any point, over that of the other lock.
fn longest(
    points: &[Point],
    (ours, theirs): (&str, &str),
    stall_ns: impl Fn(&Run) -> f64 + Copy,
) -> Option<Interval> {
    let longest = |name: &str| -> Vec<f64> {
        let own: Vec<&Point> = points.iter().filter(|point| point.lock == name).collect();
        let rounds = own.iter().map(|point| point.samples.len()).min().unwrap_or(0);
        let stall = |round: usize| own.iter().map(move |of| stall_ns(&of.samples[round]));
        (0..rounds).map(|round| stall(round).fold(0.0, f64::max)).collect()
    };
    let (ours, theirs) = (longest(ours), longest(theirs));
    let rounds = ours.iter().zip(&theirs).filter(|(_, theirs)| **theirs > 0.0);
    Interval::of(&rounds.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

/// Compares an uncontended pair of ours with that of the most similar peers.
fn of_pair(pair: &Pair, all: &[&Pair]) -> Vec<Check> {
    let build = Lock::named(&pair.lock).map(|lock| lock.build());
    if build.is_none_or(|build| matches!(build, Build::Peer | Build::Broken)) {
        return Vec::new();
    }
    let bounds = match &*pair.lock {
        "ticket" | "native-ticket" => vec![(TICKET_PAIR, "spin-ticket")],
        "hybrid" => vec![(PAIR, "std")],
        "rwlock" => READ_PAIRS.to_vec(),
        _ => vec![(OTHER_PAIR, "std")],
    };
    let of = |(bound, peer): (Bound, &str)| {
        let peer = all.iter().find(|other| other.lock == peer)?;
        let samples = pair.samples.iter().zip(&peer.samples).filter(|(_, theirs)| **theirs > 0.0);
        let ratios: Vec<f64> = samples.map(|(ours, theirs)| ours / theirs).collect();
        made(bound, Some(&pair.lock), "1 thread".into(), Interval::of(&ratios))
    };
    bounds.into_iter().filter_map(of).collect()
}

fn of_vcpus(point: &Point) -> Vec<Check> {
    let place = format!(
        "{}, {}, {} vCPUs on {} pCPUs",
        point.workload,
        point.timer.as_deref().unwrap_or(&point.policy),
        point.cpus.unwrap_or(0),
        point.pcpus.unwrap_or(0)
    );
    let of = |bound, value| made(bound, Some(&point.lock), place.clone(), value);
    let Some(lock) = Lock::named(&point.lock) else { return Vec::new() };
    let over = point.overcommit().unwrap_or(0.0);
    let is_saturated = point.locks_count == Some(1)
        && point.sections.unwrap_or(1) > 0
        && point.ncs_ns == Some(0)
        && point.policy == NO_POLICY;
    let is = |names: &[&str]| names.contains(&&*point.lock);
    let mut checks = Vec::new();
    if is_saturated && over > 1.0 {
        if is(&["native-ticket"]) && point.cpus == Some(COLLAPSE_CPUS) {
            checks.extend(of(COLLAPSE, point.of_1x));
        }
        if is(&["hybrid"]) && over <= HYBRID_OVER {
            checks.extend(of(HYBRID, point.of_1x));
        }
        if is(&["hybrid"]) && over <= LEAST_SERVED_OVER {
            checks.extend(of(LEAST_SERVED, Interval::of(&point.each(Run::least_served))));
        }
        if is(&["ticket", "queued"]) {
            checks.extend(of(OF_LIMIT, point.of_limit));
            let mut check = of(OF_NATIVE, point.of_native_ticket);
            let limit = point.of_native_ticket.zip(point.of_limit);
            if let (Some(check), Some((native, limit))) = (&mut check, limit) {
                let of = three(native.median / limit.median);
                check.note = Some(format!("hand-over itself is {of} of native-ticket"));
            }
            checks.extend(check);
        }
    }
    if is_saturated && point.cpus == point.pcpus && lock.build() == Build::Off {
        checks.extend(of(OFF, point.of_native));
    }
    if point.contention == Some(0.5) && over > 1.0 && is(&["ticket", "queued", "hybrid"]) {
        checks.extend(of(HALF, point.of_1x));
    }
    match &*point.policy {
        "skip-spinners" => checks.extend(of(OF_ROBIN, point.of_robin)),
        "pv-hint" => checks.extend(of(OF_ORACLE, point.of_oracle)),
        _ => {}
    }
    if point.timer.as_deref() == Some("lock-free") && over > 1.0 {
        checks.extend(of(OF_REFRESH, point.of_refresh));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_say_of_themselves_is_judged_again() {
        use crate::row::{Judgement, Torture, TortureFailure};
        let of = |failed| {
            let (world, lock) = ("sim".into(), "ticket".into());
            Row::Torture(Torture { world, lock, runs: 3, failed, ..Torture::default() })
        };
        let rows = [
            of(false),
            of(true),
            Row::TortureFailure(TortureFailure { text: "lost".into(), ..Default::default() }),
            Row::Check(Check::plain("kicks arrive", "xen", true, "")),
            Row::Check(Check::plain("kicks arrive", "xen", false, "none did")),
        ];
        let (met, missed) = (Judgement::Met, Judgement::Missed);
        let verdicts: Vec<_> = check(&rows).iter().map(|check| check.verdict).collect();
        assert_eq!(verdicts, [met, missed, missed, met, missed]);
    }
    use crate::Lengths;
    use crate::row::{Judgement, relate};

    fn point(lock: &str, cpus: u32, ops: f64) -> Point {
        let run =
            Run { ops_per_s: ops, jain: 1.0, longest_stall_ns: Some(1_000), ..Run::default() };
        Point {
            world: "kvm".into(),
            lock: lock.into(),
            policy: NO_POLICY.into(),
            cpus: Some(cpus),
            pcpus: Some(2),
            cs_ns: Some(100),
            ncs_ns: Some(0),
            locks_count: Some(1),
            ops_per_s: Interval::of(&[ops]),
            samples: vec![run; 3],
            ..Point::default()
        }
    }

    fn verdicts(mut points: Vec<Point>) -> Vec<(String, Judgement)> {
        relate(&mut points);
        let rows: Vec<Row> = points.into_iter().map(Box::new).map(Row::Point).collect();
        check(&rows).into_iter().map(|check| (check.bound, check.verdict)).collect()
    }

    #[test]
    fn a_lock_that_collapses_misses_its_bound() {
        let of = |ops| verdicts(vec![point("hybrid", 2, 100.0), point("hybrid", 16, ops)]);
        assert_eq!(of(90.0)[0], ("throughput over 1x".into(), Judgement::Met));
        assert_eq!(of(50.0)[0], ("throughput over 1x".into(), Judgement::Missed));
    }

    #[test]
    fn threads_are_judged_by_the_best_peer() {
        let threads = |lock: &str, ops| {
            let world = "threads".into();
            Point { world, lengths: Some(Lengths::Exp), ..point(lock, 8, ops) }
        };
        let of = |ops| {
            let points = vec![threads("hybrid", ops), threads("std", 100.0)];
            verdicts(points).into_iter().find(|of| of.0 == "throughput over best peer").unwrap().1
        };
        assert_eq!((of(90.0), of(80.0)), (Judgement::Met, Judgement::Missed));
    }

    #[test]
    fn readers_and_waits_have_bounds_of_their_own() {
        let all = |lock: &str, peer: &str, task: Task, ops: f64| {
            let threads = |lock: &str, ops, stall| {
                let mut of = point(lock, 8, ops);
                of.samples.iter_mut().for_each(|run| run.write_stall_ns = Some(stall));
                let world = "threads".into();
                Point { world, task: Some(task), lengths: Some(Lengths::Exp), ..of }
            };
            let mut found = verdicts(vec![threads(lock, ops, 30), threads(peer, 100.0, 20)]);
            found.sort_by(|a, b| a.0.cmp(&b.0));
            found
        };
        let verdict = |bound: Bound, verdict| (bound.0.to_owned(), verdict);
        let rwlock = |task, ops| all("rwlock", "parking-lot-rwlock", task, ops);
        let stall = verdict(WRITE_STALL, Judgement::Missed);
        let many =
            [stall.clone(), verdict(READS, Judgement::Missed), verdict(EACH, Judgement::Met)];
        assert_eq!(rwlock(Task::Read(99), 90.0), many);
        let half = [stall.clone(), verdict(HALF_READS, Judgement::Missed)];
        assert_eq!(rwlock(Task::Read(50), 90.0), half);
        assert_eq!(rwlock(Task::Read(0), 90.0), [stall]);
        let waits = [verdict(WAITS, Judgement::Missed), verdict(EACH_WAIT, Judgement::Missed)];
        assert_eq!(all("hybrid", "std", Task::Broadcast, 80.0), waits);
    }

    #[test]
    fn a_read_pair_is_judged_by_both_peers() {
        let pair = |lock: &str, ns| {
            Row::Pair(Pair { lock: lock.into(), ns: Interval::of(&[ns]), samples: vec![ns; 3] })
        };
        let rows = [pair("rwlock", 5.0), pair("std-rwlock", 10.0), pair("parking-lot-rwlock", 8.0)];
        let verdicts: Vec<Judgement> = check(&rows).into_iter().map(|of| of.verdict).collect();
        assert_eq!(verdicts, [Judgement::Met, Judgement::Missed]);
    }
}
