// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which points and which locks a benchmark measures.

use super::random;
use super::steps::Lengths;
use super::subjects::{self, Entry, Origin};
use crate::args::{BenchArgs, Grid, unique};
use crate::units::Nanos;
use anyhow::{Result, bail};

/// One combination of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) threads: usize,
    pub(crate) cs: Nanos,
    pub(crate) ncs: Nanos,
    pub(crate) lengths: Lengths,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.threads == 1 { "" } else { "s" };
        write!(f, "{} thread{plural}, cs {}, ncs {}, ", self.threads, self.cs, self.ncs)?;
        write!(f, "{}", self.lengths)
    }
}

/// Everything that is to be measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) points: Vec<Point>,
    pub(crate) locks: Vec<&'static Entry>,
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    pub(crate) counted: bool,
    /// Whether points are too many for a table each.
    pub(crate) rows: bool,
}

impl Plan {
    /// Fills in what the arguments leave open.
    pub(crate) fn new(args: &BenchArgs, cpus: usize) -> Result<Self> {
        let nanos = |list: &[u64]| list.iter().copied().map(Nanos).collect::<Vec<_>>();
        let (mut threads, mut cs, mut ncs, seconds, rounds) = match args.grid {
            Grid::Quick => {
                (vec![1, cpus, crowd(cpus)], nanos(&[0, 1_000]), nanos(&[0, 1_000]), 0.17, 3)
            }
            Grid::Full => (
                vec![1, 2, 3, 4, 8, 16, 32, 64],
                nanos(&[0, 100, 1_000, 10_000]),
                nanos(&[0, 1_000]),
                1.0,
                5,
            ),
        };
        if !args.threads.is_empty() {
            threads = args.threads.iter().copied().map(usize::from).collect();
        }
        if !args.cs.is_empty() {
            cs.clone_from(&args.cs);
        }
        if !args.ncs.is_empty() {
            ncs.clone_from(&args.ncs);
        }
        let points = match args.random {
            Some(count) => {
                random::points(count, args.seed, &unique(args.lengths_or(&Lengths::ALL)))
            }
            None => cross(
                &unique(threads),
                &unique(cs),
                &unique(ncs),
                &unique(args.lengths_or(&[Lengths::Exp])),
            ),
        };
        let (seconds, rounds) = if args.random.is_some() { (0.15, 3) } else { (seconds, rounds) };
        Ok(Plan {
            points,
            locks: choose(&args.locks)?,
            seconds: args.seconds.unwrap_or(seconds),
            rounds: args.runs.map_or(rounds, usize::from),
            seed: args.seed,
            counted: args.counters,
            rows: args.random.is_some(),
        })
    }
}

/// Threads enough that most of them are not running: 8 for each CPU, fewer on a large machine.
fn crowd(cpus: usize) -> usize {
    (8 * cpus).min(64).max(2 * cpus)
}

fn cross(threads: &[usize], cs: &[Nanos], ncs: &[Nanos], lengths: &[Lengths]) -> Vec<Point> {
    let mut points = Vec::new();
    for &lengths in lengths {
        for &cs in cs {
            for &ncs in ncs {
                points.extend(threads.iter().map(|&threads| Point { threads, cs, ncs, lengths }));
            }
        }
    }
    points
}

/// Resolves lock names and the group names `all`, `ours` and `peers`.
fn choose(names: &[String]) -> Result<Vec<&'static Entry>> {
    let mut chosen: Vec<&'static Entry> = Vec::new();
    for name in names {
        let found: Vec<&'static Entry> = match name.as_str() {
            "all" => subjects::offered().collect(),
            "ours" => subjects::offered().filter(|lock| lock.origin == Origin::Ours).collect(),
            "peers" => subjects::offered().filter(|lock| lock.origin == Origin::Peer).collect(),
            name => subjects::find(name).into_iter().collect(),
        };
        if found.is_empty() {
            let known: Vec<&str> = subjects::offered().map(|lock| lock.name).collect();
            bail!(
                "there is no lock '{name}'; choose from {} (or all, ours, peers)",
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
