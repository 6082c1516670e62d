// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points and the locks that a benchmark measures.

use super::random;
use crate::args::{BenchArgs, Grid, unique};
use crate::units::Nanos;
use anyhow::{Result, bail};
use overlock_bench::Lengths;
use overlock_bench::{Entry, Origin};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// One combination of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) threads: usize,
    /// Mean lengths of critical sections and of the pauses between them.
    pub(crate) cs: Nanos,
    pub(crate) ncs: Nanos,
    pub(crate) lengths: Lengths,
    /// How many locks there are; threads choose among them by Zipf's law.
    pub(crate) locks: u32,
    /// The lengths in the second half of each run, if they change.
    pub(crate) then: Option<Phase>,
    /// How many times as long the critical sections of the first thread are.
    pub(crate) uneven: u32,
}

/// Mean lengths of critical sections and of pauses, written `CS/NCS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) cs: Nanos,
    pub(crate) ncs: Nanos,
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((cs, ncs)) = text.split_once('/') else {
            return Err(format!("'{text}' is not CS/NCS (as in 10us/0)"));
        };
        Ok(Phase { cs: cs.parse()?, ncs: ncs.parse()? })
    }
}

impl Point {
    /// Makes a point with one lock and exponential lengths, whose means stay the same for all
    /// threads.
    pub(crate) const fn plain(threads: usize, cs: Nanos, ncs: Nanos) -> Self {
        Point { threads, cs, ncs, lengths: Lengths::Exp, locks: 1, then: None, uneven: 1 }
    }

    /// Returns whether all critical sections and pauses are empty, so that only the lock remains.
    pub(crate) fn is_bare(&self) -> bool {
        self.cs == Nanos(0) && self.ncs == Nanos(0) && self.then.is_none()
    }

    /// Returns the phases of the threads, one after another.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> {
        let Point { cs, ncs, .. } = *self;
        std::iter::once(Phase { cs, ncs }).chain(self.then)
    }

    /// Describes the shape of the lengths, and anything else that is not plain.
    pub(crate) fn shape(&self) -> String {
        let mut shape = self.lengths.to_string();
        if let Some(Phase { cs, ncs }) = self.then {
            shape += &format!(", then {cs}/{ncs}");
        }
        if self.locks > 1 {
            shape += &format!(", {} locks", self.locks);
        }
        if self.uneven > 1 {
            shape += &format!(", one holds {}x", self.uneven);
        }
        shape
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.threads == 1 { "" } else { "s" };
        let Point { threads, cs, ncs, .. } = self;
        write!(f, "{threads} thread{plural}, cs {cs}, ncs {ncs}, {}", self.shape())
    }
}

/// Everything that a benchmark measures.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) points: Vec<Point>,
    pub(crate) locks: Vec<&'static Entry>,
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    pub(crate) counted: bool,
    /// Whether to explain where the time of each lock went.
    pub(crate) explained: bool,
    /// Whether each point gets a row instead of a table: the user did not name the points, and
    /// there are many.
    pub(crate) rows: bool,
}

impl Plan {
    /// Fills in what the arguments leave open; `day` is the seed if the user gives none.
    pub(crate) fn new(args: &BenchArgs, cpus: usize, day: u64) -> Result<Self> {
        let seed = args.seed.unwrap_or(day);
        let random = |count| {
            let lengths = unique(args.lengths_or(&Lengths::ALL));
            random::points(count, seed, &lengths, args.wide)
        };
        let by_hand = !(args.threads.is_empty() && args.cs.is_empty() && args.ncs.is_empty());
        let (points, seconds, rounds) = match (args.random, args.grid) {
            (Some(count), _) => (random(count), 0.15, 3),
            (None, _) if by_hand => (cross(args, cpus), 0.17, 3),
            (None, Grid::Quick) => (joined(known(cpus), random(QUICK_RANDOM)), 0.08, 6),
            (None, Grid::Full) => {
                let all = joined(known(cpus), full());
                (joined(all, random::points(FULL_RANDOM, seed, &Lengths::ALL, true)), 0.5, 6)
            }
        };
        Ok(Plan {
            rows: args.random.is_some() || !by_hand,
            points: points.into_iter().map(|point| varied(point, args)).collect(),
            locks: choose(&args.locks)?,
            seconds: args.seconds.unwrap_or(seconds),
            rounds: args.runs.map_or(rounds, usize::from),
            seed,
            counted: args.counters,
            explained: args.explain,
        })
    }
}

impl Plan {
    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.points.len() * self.rounds * self.locks.len()
    }
}

/// The number of random points in the grids.
const QUICK_RANDOM: u16 = 12;
const FULL_RANDOM: u16 = 60;

/// Returns enough threads that most of them do not run: 8 for each CPU, fewer on a large machine.
fn crowd(cpus: usize) -> usize {
    (8 * cpus).min(64).max(2 * cpus)
}

/// Returns the four points that people ask for first. They tell little: every author of a lock has
/// seen them.
fn known(cpus: usize) -> Vec<Point> {
    let nothing = |threads| Point::plain(threads, Nanos(0), Nanos(0));
    let some = |threads| Point::plain(threads, Nanos(1_000), Nanos(1_000));
    vec![nothing(1), nothing(cpus.max(2)), nothing(crowd(cpus)), some(crowd(cpus))]
}

/// Returns a coarse grid over the space from which random points are drawn.
fn full() -> Vec<Point> {
    let mut points = Vec::new();
    for cs in [50, 1_000, 50_000] {
        for ncs in [0, 1_000, 50_000] {
            let point = |threads| Point::plain(threads, Nanos(cs), Nanos(ncs));
            points.extend([2, 8, 16, 64].map(point));
        }
    }
    points
}

fn joined(mut points: Vec<Point>, more: Vec<Point>) -> Vec<Point> {
    points.extend(more);
    points
}

/// Returns the product of the lists; a list that the user gives replaces the default.
fn cross(args: &BenchArgs, cpus: usize) -> Vec<Point> {
    let or = |given: &[Nanos]| match given {
        [] => vec![Nanos(0), Nanos(1_000)],
        given => unique(given.iter().copied()),
    };
    let threads = match &args.threads[..] {
        [] => unique([1, cpus, crowd(cpus)]),
        given => unique(given.iter().copied().map(usize::from)),
    };
    let mut points = Vec::new();
    for lengths in unique(args.lengths_or(&[Lengths::Exp])) {
        for cs in or(&args.cs) {
            for ncs in or(&args.ncs) {
                let plain = threads.iter().map(|threads| Point::plain(*threads, cs, ncs));
                points.extend(plain.map(|point| Point { lengths, ..point }));
            }
        }
    }
    points
}

/// Returns the same point with the settings that apply everywhere.
fn varied(point: Point, args: &BenchArgs) -> Point {
    Point {
        locks: args.locks_count.unwrap_or(point.locks),
        then: args.phase.or(point.then),
        uneven: args.uneven.unwrap_or(point.uneven),
        ..point
    }
}

/// Returns the number of the day since 1970: a seed that changes daily and is the same for all
/// users.
pub(crate) fn day(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}

/// The locks of the group `main`: ours that halt, and the peers that are best somewhere.
const MAIN: [&str; 7] = ["hybrid", "queued", "ticket", "std", "parking-lot", "pthread", "yield"];

/// Resolves lock names and the group names `main`, `all`, `ours` and `peers`.
fn choose(names: &[String]) -> Result<Vec<&'static Entry>> {
    let mut chosen: Vec<&'static Entry> = Vec::new();
    for name in names {
        let found: Vec<&'static Entry> = match name.as_str() {
            "all" => overlock_bench::offered().collect(),
            "ours" => {
                overlock_bench::offered().filter(|lock| lock.origin == Origin::Ours).collect()
            }
            "main" => MAIN.iter().filter_map(|name| overlock_bench::find(name)).collect(),
            "peers" => {
                overlock_bench::offered().filter(|lock| lock.origin == Origin::Peer).collect()
            }
            name => overlock_bench::find(name).into_iter().collect(),
        };
        if found.is_empty() {
            let known: Vec<&str> = overlock_bench::offered().map(|lock| lock.name).collect();
            bail!(
                "there is no lock '{name}'; choose from {} (or main, all, ours, peers)",
                known.join(", ")
            );
        }
        for lock in found {
            if !chosen.iter().any(|other| other.name == lock.name) {
                chosen.push(lock);
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_seed_changes_at_midnight() {
        let at = |seconds| day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([0, 86_399, 86_400, 1_700_000_000].map(at), [0, 0, 1, 19_675]);
    }

    #[test]
    fn a_phase_is_two_lengths() {
        let phase = Phase { cs: Nanos(10_000), ncs: Nanos(0) };
        assert_eq!("10us/0".parse(), Ok(phase));
        assert!("10us".parse::<Phase>().unwrap_err().contains("is not CS/NCS"));
        assert!("10us/5".parse::<Phase>().unwrap_err().contains("needs a unit"));
    }

    #[test]
    fn points_say_what_is_not_plain() {
        let plain = Point::plain(16, Nanos(50), Nanos(1_500));
        assert_eq!(plain.to_string(), "16 threads, cs 50ns, ncs 1.5us, exp");
        let then = Some(Phase { cs: Nanos(0), ncs: Nanos(9) });
        let other = Point { lengths: Lengths::Bimodal, locks: 8, then, uneven: 4, ..plain };
        assert_eq!(other.shape(), "bimodal, then 0/9ns, 8 locks, one holds 4x");
    }
}
