//! Ratios between points that took turns: formed round by round, and only then summarised, so that
//! anything that slows the machine for some time cancels out.

use super::Point;
use crate::locks::{Build, HAND_OVER, Lock};
use crate::run::Run;
use crate::stats::{Interval, geomean, median};
use crate::{NO_POLICY, PmTimerRule};

/// The share of an operation above which the floor is most of it.
const FLOOR_SHARE: f64 = 0.5;

/// Policies with which others are compared.
const REPORT: &str = "report";
const ROUND_ROBIN: &str = "round-robin";
const ORACLE: &str = "oracle";

/// Fills in the ratios of each point to others among `points`.
pub fn relate(points: &mut [Point]) {
    let mut related: Vec<Point> = points.iter().map(|point| related(point, points)).collect();
    points.swap_with_slice(&mut related);
}

fn ops(run: &Run) -> f64 {
    run.ops_per_s
}

fn reads(run: &Run) -> f64 {
    run.exit_per_s("pm-timer")
}

/// Where the figure of a point's own kind is the base, the ratio would say nothing: it is 1.
fn related(point: &Point, all: &[Point]) -> Point {
    let Some(lock) = Lock::named(&point.lock) else { return point.clone() };
    let Point { lock: name, policy, timer, cpus, .. } = point;
    let find = |like: &dyn Fn(&Point) -> bool| {
        all.iter().find(|other| point.takes_turns_with(other) && like(other))
    };
    let same = |other: &Point, name: &str, policy: &str, cpus| {
        (&*other.lock, &*other.policy, &other.timer, other.cpus) == (name, policy, timer, cpus)
    };
    let over = |other: Option<&Point>| point.over(other?, ops);
    let under = |policy: &str| over(find(&|other| same(other, name, policy, *cpus)));
    let with_timer = |rule: PmTimerRule| {
        let is_ruled = |other: &Point| {
            (&other.lock, &other.policy, other.cpus) == (name, policy, *cpus)
                && other.timer.as_deref() == Some(rule.name())
        };
        point.over(find(&is_ruled).filter(|_| timer.is_some())?, reads)
    };
    let native = find(&|other| {
        let built = Lock::named(&other.lock);
        built.is_some_and(|b| b.build() == Build::Native && b.family() == lock.family())
            && same(other, &other.lock, policy, *cpus)
    });
    Point {
        best_peer: best_peer(point, all).map(|peer| peer.lock.clone()),
        of_best_peer: Interval::of(&of_best_peer(point, all)),
        of_1x: over(find(&|other| same(other, name, policy, point.pcpus))),
        of_none: under(NO_POLICY),
        of_report: under(REPORT),
        of_robin: under(ROUND_ROBIN),
        of_oracle: under(ORACLE),
        of_native: over(native.filter(|_| lock.build() != Build::Native)),
        of_native_ticket: over(find(&|other| same(other, "native-ticket", policy, *cpus))),
        of_limit: over(find(&|other| other.lock == HAND_OVER && other.cpus == *cpus)),
        of_mutex: with_timer(PmTimerRule::Mutex),
        of_refresh: with_timer(PmTimerRule::Refresh),
        ..point.clone()
    }
}

fn is_peer(point: &Point) -> bool {
    Lock::named(&point.lock).is_some_and(|lock| lock.build() == Build::Peer)
}

/// The points of all locks where `point` is.
fn rivals<'a>(point: &Point, all: &'a [Point]) -> impl Iterator<Item = &'a Point> {
    all.iter().filter(move |other| point.takes_turns_with(other) && point.cpus == other.cpus)
}

/// The peer with the highest median throughput at the place of `point`.
fn best_peer<'a>(point: &Point, all: &'a [Point]) -> Option<&'a Point> {
    rivals(point, all).filter(|other| is_peer(other)).max_by(|a, b| a.ops().total_cmp(&b.ops()))
}

/// Whether a ratio of throughputs compares the locks, and not the work around them.
///
/// Each operation of a lone thread consists of its floor and the uncontended pair. Where the floor
/// is most of the fastest lock's operation, all locks look alike, whatever their pairs cost. With
/// several threads the locks are there to arrange the work, so every point counts.
fn has_ratios(point: &Point, all: &[Point]) -> bool {
    let fastest = rivals(point, all).map(Point::ops).fold(0.0, f64::max);
    point.cpus != Some(1) || point.floor_ns.is_none_or(|ns| ns * fastest < FLOOR_SHARE * 1e9)
}

/// The throughput over that of the best peer, round by round; empty where there is none.
///
/// A round is compared with the peer that is best in the *other* rounds. The best of the same round
/// would often be the luckiest: among equal peers, the one that the noise favoured, so that a lock
/// as good as each of them would seem worse than all. (Sometimes the other rounds choose a peer
/// that is a little worse; that favours the lock by less.) With a single round it must be that same
/// round.
fn of_best_peer(point: &Point, all: &[Point]) -> Vec<f64> {
    if !has_ratios(point, all) {
        return Vec::new();
    }
    let peers: Vec<&Point> = rivals(point, all).filter(|other| is_peer(other)).collect();
    let without = |peer: &Point, round: usize| {
        let mut others = peer.each(ops);
        if others.len() > 1 {
            others.remove(round);
        }
        median(&others).unwrap_or(0.0)
    };
    let ratio = |round: usize| {
        let has_round = |peer: &&&Point| round < peer.samples.len();
        let best = peers.iter().filter(has_round);
        let best = best.max_by(|a, b| without(a, round).total_cmp(&without(b, round)))?;
        let theirs = ops(&best.samples[round]);
        (theirs > 0.0).then(|| ops(&point.samples[round]) / theirs)
    };
    (0..point.samples.len()).filter_map(ratio).collect()
}

/// The geometric mean over all points of the lock called `name` of its throughput over that of each
/// point's best peer, for each round.
pub fn geomeans(name: &str, points: &[Point]) -> Vec<f64> {
    let own = points.iter().filter(|point| point.lock == name);
    let ratios: Vec<Vec<f64>> =
        own.map(|point| of_best_peer(point, points)).filter(|ratios| !ratios.is_empty()).collect();
    let rounds = ratios.iter().map(Vec::len).min().unwrap_or(0);
    let round = |index: usize| ratios.iter().map(|of| of[index]).collect::<Vec<_>>();
    (0..rounds).filter_map(|index| geomean(&round(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn point(lock: &str, cpus: u32, rounds: &[f64]) -> Point {
        let run = |ops: &f64| Run { ops_per_s: *ops, seconds: 1.0, ..Run::default() };
        Point {
            world: "threads".into(),
            lock: lock.into(),
            policy: NO_POLICY.into(),
            cpus: Some(cpus),
            pcpus: Some(2),
            ops_per_s: Interval::of(rounds),
            samples: rounds.iter().map(run).collect(),
            ..Point::default()
        }
    }

    #[test]
    fn ratios_are_formed_inside_a_round() {
        let mut points = [
            point("native-ticket", 2, &[1.0, 10.0, 100.0]),
            point("ticket", 2, &[2.0, 20.0, 200.0]),
            point("ticket", 8, &[1.0, 10.0, 100.0]),
            point("ticket", 8, &[0.0; 3]),
        ];
        relate(&mut points);
        let two = Some(Interval { median: 2.0, low: 2.0, high: 2.0 });
        let half = Some(Interval { median: 0.5, low: 0.5, high: 0.5 });
        assert_eq!((points[1].of_native, points[1].of_native_ticket), (two, two));
        assert_eq!((points[2].of_1x, points[2].of_native), (half, None));
        assert_eq!(points[1].of_best_peer, None, "there is no peer");
        let silent = [points[1].clone(), points[3].clone()];
        assert_eq!(silent[0].over(&silent[1], ops), None, "zero is no base");
    }

    #[test]
    fn where_the_floor_is_most_of_it_there_is_no_ratio() {
        let of = |cpus, floor_ns| {
            let peer = Point { floor_ns, ..point("std", cpus, &[1e7; 3]) };
            let mut points = [Point { floor_ns, ..point("hybrid", cpus, &[1.1e7; 3]) }, peer];
            relate(&mut points);
            points[0].of_best_peer.is_some()
        };
        assert!(of(1, Some(20.0)) && !of(1, Some(80.0)) && of(2, Some(80.0)) && of(1, None));
    }

    /// Equal locks, of which each round favours another.
    #[test]
    fn luck_makes_no_best_peer() {
        let mut rng = Rng::new(5);
        let (mut fair, mut naive) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let mut rounds = || [(); 3].map(|()| 100.0 + rng.below(20) as f64);
            let names = ["hybrid", "std", "parking-lot", "pthread", "yield", "pthread-spin"];
            let mut points: Vec<_> = names.iter().map(|name| point(name, 2, &rounds())).collect();
            relate(&mut points);
            fair.extend(of_best_peer(&points[0], &points));
            naive.extend(points[0].rounds_over(best_peer(&points[0], &points).unwrap(), ops));
        }
        let (fair, naive) = (geomean(&fair).unwrap(), geomean(&naive).unwrap());
        assert!((0.995..1.005).contains(&fair), "{fair}");
        // The naive way, which punishes a lock for the number of its peers.
        assert!(naive < 0.98, "{naive}");
    }
}
