//! Everything that can make a number doubtful, each with advice.

use crate::output;
use crate::stats::STEAL_LIMIT;
use overlock_results::Takers;
use overlock_results::row::{Machine, Point};
use overlock_results::units::DurationArg;

/// Runs of the same thing that differ by more than this are reported as doubtful.
const SPREAD_LIMIT: f64 = 0.25;

/// The share of CPU time that others may take in a run before it counts as disturbed.
pub(crate) const DISTURBED: f64 = 0.05;

#[derive(Debug)]
pub(crate) struct Warning(pub(crate) String);

impl Warning {
    /// Warns if the load average shows other processes running.
    pub(crate) fn busy_machine(machine: &Machine) -> Option<Self> {
        let (load, cpus) = (machine.load_average?, machine.cpus?);
        (load > 0.5 * cpus as f64).then(|| {
            Warning(format!(
                "the load average was {load} on {cpus} CPUs before anything was started; \
                 end other processes, or trust only ratios and no absolute figures"
            ))
        })
    }

    /// Warns about the point from which the hypervisor took most, if it is more than
    /// [`STEAL_LIMIT`].
    pub(crate) fn steal(points: &[Point], place: impl Fn(&Point) -> String) -> Option<Self> {
        let most = points.iter().max_by(|a, b| a.steal.total_cmp(&b.steal))?;
        (most.steal > STEAL_LIMIT).then(|| {
            Warning(format!(
                "the hypervisor took {:.1} % of the CPU time (at most: {}); \
                 repeat when the host is quieter, or use more --runs",
                most.steal * 100.0,
                place(most)
            ))
        })
    }

    /// Warns about the widest of some intervals, each with its place, if it is wider than `limit`.
    pub(crate) fn widest(spreads: impl Iterator<Item = (f64, String)>, limit: f64) -> Option<Self> {
        let (spread, place) = spreads.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (spread > limit).then(|| {
            Warning(format!(
                "results vary by ±{:.0} % (widest: {place}); make runs longer, and --runs more",
                spread * 100.0
            ))
        })
    }

    /// Warns that the CPU's speed has changed by a share.
    pub(crate) fn drift(share: f64) -> Self {
        Warning(format!(
            "the CPU's speed changed by {:.0} % during the run, so critical sections did \
             not have their stated length; fix the frequency, or repeat on a quieter machine",
            share * 100.0
        ))
    }

    pub(crate) fn print(&self) {
        output::complain(&format!("warning: {}", self.0));
    }
}

pub(crate) fn of_points(points: &[Point]) -> Vec<Warning> {
    let place = |point: &Point| {
        let (cpus, cs, ncs) = (point.cpus.unwrap_or(0), point.cs_ns, point.ncs_ns);
        let [cs, ncs] = [cs, ncs].map(|ns| DurationArg(ns.unwrap_or(0)));
        format!("{} with {cpus}, cs {cs}, ncs {ncs}", point.lock)
    };
    let mut warnings = Vec::from_iter(Warning::steal(points, place));
    let runs = || points.iter().flat_map(|point| &point.samples);
    let disturbed = runs().filter(|run| run.disturbance > DISTURBED).count();
    if disturbed > 0 {
        let worst = runs().map(|run| run.disturbance).fold(0.0, f64::max);
        let retaken: u32 = runs().map(|run| run.retaken).sum();
        warnings.push(Warning(format!(
            "in {disturbed} of {} runs other processes took more than 5 % of the CPU time, up to \
             {:.0} % ({retaken} runs were repeated because of that); repeat on a quieter machine",
            runs().count(),
            worst * 100.0
        )));
    }
    // What is compared: threads with peers, vCPUs with one another.
    let compared =
        |of: &Point| if of.takers() == Takers::Threads { of.of_best_peer } else { of.ops_per_s };
    let widest = points.iter().filter_map(|of| Some((compared(of)?.spread(), place(of))));
    warnings.extend(Warning::widest(widest, SPREAD_LIMIT));
    let most = |point: &Point| point.samples.iter().map(|run| run.undrained).max().unwrap_or(0);
    if let Some(of) = points.iter().max_by_key(|point| most(point)).filter(|of| most(of) > 0) {
        warnings.push(Warning(format!(
            "{} thread(s) were still queueing for {} after the measured time \
             ({}); they were ended with their process, and the check of mutual exclusion \
             allows for one update from each",
            most(of),
            of.lock,
            place(of)
        )));
    }
    warnings
}
