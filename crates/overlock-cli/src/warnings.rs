// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can make a number doubtful, each with what to do about it.

use crate::machine::Machine;
use crate::output;

/// Steal above this share moves results more than locks differ.
pub(crate) const STEAL_LIMIT: f64 = 0.02;

/// Runs of the same thing that differ by more than this are told as doubtful.
const SPREAD_LIMIT: f64 = 0.25;

/// A doubt about the results.
#[derive(Debug, PartialEq)]
pub(crate) enum Warning {
    BusyMachine { load: f64, cpus: usize },
    Steal { share: f64, place: String },
    WideInterval { place: String, spread: f64 },
    Drift { percent: f64 },
    Undrained { lock: String, point: String, threads: usize },
}

impl Warning {
    /// Warns if the load average says that others are running here.
    pub(crate) fn busy_machine(machine: &Machine) -> Option<Self> {
        let load = machine.load_average;
        (load > 0.5 * machine.cpus as f64)
            .then_some(Warning::BusyMachine { load, cpus: machine.cpus })
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

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::BusyMachine { load, cpus } => write!(
                f,
                "the load average is {load} on {cpus} CPUs before anything was started; \
                 end what else is running, or read ratios only and never absolute figures"
            ),
            Warning::Steal { share, place } => write!(
                f,
                "the hypervisor took {:.1} % of the CPU time ({place}); \
                 repeat when the host is quieter, or use more --runs",
                share * 100.0
            ),
            Warning::WideInterval { place, spread } => write!(
                f,
                "results vary by ±{:.0} % ({place}); use longer and more --runs",
                spread * 100.0
            ),
            Warning::Drift { percent } => write!(
                f,
                "the CPU's speed changed by {percent:.0} % during the run, so sections were not as \
                 long as they say; fix the frequency, or repeat on a quieter machine"
            ),
            Warning::Undrained { lock, point, threads } => write!(
                f,
                "{threads} threads were still queueing for {lock} after the window was over \
                 ({point}); they were ended with their process, and the check of mutual exclusion \
                 allows for one update from each"
            ),
        }
    }
}
