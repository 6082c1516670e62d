// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can make a number doubtful, each with advice.

use crate::output;
use crate::stats::STEAL_LIMIT;
use overlock_world::row::{Machine, Point};
use overlock_world::units::Nanos;

/// Runs of the same thing that differ by more than this are reported as doubtful.
const SPREAD_LIMIT: f64 = 0.25;

/// The share of CPU time that others may take in a run before it counts as disturbed.
pub(crate) const DISTURBED: f64 = 0.05;

/// A doubt about the results.
#[derive(Debug, PartialEq)]
pub(crate) enum Warning {
    BusyMachine {
        load: f64,
        cpus: u64,
    },
    Steal {
        share: f64,
        place: String,
    },
    WideInterval {
        place: String,
        spread: f64,
    },
    Drift {
        percent: f64,
    },
    Disturbed {
        disturbed: usize,
        runs: usize,
        retaken: u32,
        worst: f64,
    },
    Undrained {
        lock: String,
        point: String,
        threads: u32,
    },
    /// What a program waited for, and a lock can't change.
    Waits(String),
}

impl Warning {
    /// Warns if the load average shows other processes running.
    pub(crate) fn busy_machine(machine: &Machine) -> Option<Self> {
        let (load, cpus) = (machine.load_average?, machine.cpus?);
        (load > 0.5 * cpus as f64).then_some(Warning::BusyMachine { load, cpus })
    }

    /// Warns if the hypervisor took away more than [`STEAL_LIMIT`].
    pub(crate) fn steal(share: f64, place: impl ToString) -> Option<Self> {
        (share > STEAL_LIMIT).then(|| Warning::Steal { share, place: place.to_string() })
    }

    /// Warns about the widest of some intervals, each with its place, if it is too wide.
    pub(crate) fn widest(spreads: impl Iterator<Item = (f64, String)>) -> Option<Self> {
        let (spread, place) = spreads.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let place = format!("widest: {place}");
        (spread > SPREAD_LIMIT).then_some(Warning::WideInterval { place, spread })
    }

    pub(crate) fn print(&self) {
        output::complain(&format!("warning: {self}"));
    }
}

/// Returns everything that makes these results doubtful.
pub(crate) fn of_points(points: &[Point]) -> Vec<Warning> {
    let place = |point: &Point| {
        let (cpus, cs, ncs) = (point.cpus.unwrap_or(0), point.cs_ns, point.ncs_ns);
        let [cs, ncs] = [cs, ncs].map(|ns| Nanos(ns.unwrap_or(0)));
        format!("{} with {cpus}, cs {cs}, ncs {ncs}", point.lock)
    };
    let mut warnings = Vec::new();
    let most = points.iter().max_by(|a, b| a.steal.total_cmp(&b.steal));
    warnings
        .extend(most.and_then(|of| Warning::steal(of.steal, format!("at most: {}", place(of)))));
    let runs = || points.iter().flat_map(|point| &point.samples);
    let disturbed = runs().filter(|run| run.disturbance > DISTURBED).count();
    if disturbed > 0 {
        let worst = runs().map(|run| run.disturbance).fold(0.0, f64::max);
        let retaken = runs().map(|run| run.retaken).sum();
        warnings.push(Warning::Disturbed { disturbed, runs: runs().count(), retaken, worst });
    }
    // What is compared: threads with peers, vCPUs with one another.
    let compared = |of: &Point| if of.lengths.is_some() { of.of_best_peer } else { of.ops_per_s };
    let widest = points.iter().filter_map(|of| Some((compared(of)?.spread(), place(of))));
    warnings.extend(Warning::widest(widest));
    let most = |point: &Point| point.samples.iter().map(|run| run.undrained).max().unwrap_or(0);
    if let Some(of) = points.iter().max_by_key(|point| most(point)).filter(|of| most(of) > 0) {
        let (lock, point) = (of.lock.clone(), place(of));
        warnings.push(Warning::Undrained { lock, point, threads: most(of) });
    }
    warnings
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::BusyMachine { load, cpus } => write!(
                f,
                "the load average was {load} on {cpus} CPUs before anything was started; \
                 end other processes, or trust only ratios and no absolute figures"
            ),
            Warning::Steal { share, place } => write!(
                f,
                "the hypervisor took {:.1} % of the CPU time ({place}); \
                 repeat when the host is quieter, or use more --runs",
                share * 100.0
            ),
            Warning::WideInterval { place, spread } => write!(
                f,
                "results vary by ±{:.0} % ({place}); make runs longer, and --runs more",
                spread * 100.0
            ),
            Warning::Drift { percent } => write!(
                f,
                "the CPU's speed changed by {percent:.0} % during the run, so critical sections did \
                 not have their stated length; fix the frequency, or repeat on a quieter machine"
            ),
            Warning::Disturbed { disturbed, runs, retaken, worst } => write!(
                f,
                "in {disturbed} of {runs} runs other processes took more than 5 % of the CPU time, up to \
                 {:.0} % ({retaken} runs were repeated because of that); repeat on a quieter machine",
                worst * 100.0
            ),
            Warning::Undrained { lock, point, threads } => write!(
                f,
                "{threads} thread(s) were still queueing for {lock} after the measured time \
                 ({point}); they were ended with their process, and the check of mutual exclusion \
                 allows for one update from each"
            ),
            Warning::Waits(sentence) => f.write_str(sentence),
        }
    }
}
