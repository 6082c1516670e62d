// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can make a number doubtful, each with what to do about it.

use crate::machine::Machine;
use crate::output;
use std::collections::BTreeMap;

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
    Disturbed { disturbed: usize, runs: usize, retaken: usize, worst: f64 },
    Undrained { lock: String, point: String, threads: usize },
    NoWaits { lock: String, handed_to_libc: u64 },
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

    /// Warns if the counters of a program say that it waited for no lock of ours.
    pub(crate) fn no_waits(lock: &str, counters: &BTreeMap<String, u64>) -> Option<Self> {
        let is_libcs = |name: &str| name.ends_with(".handed_to_libc");
        let libcs = counters.iter().filter(|(name, _)| is_libcs(name));
        let handed_to_libc = libcs.map(|(_, count)| count).sum();
        let has_waited = counters.iter().any(|(name, count)| !is_libcs(name) && *count > 0);
        (!has_waited).then(|| Warning::NoWaits { lock: lock.to_owned(), handed_to_libc })
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
            Warning::Disturbed { disturbed, runs, retaken, worst } => write!(
                f,
                "in {disturbed} of {runs} runs others took more than 5 % of the CPU time, up to \
                 {:.0} % ({retaken} runs were taken again for that); repeat on a quieter machine",
                worst * 100.0
            ),
            Warning::Undrained { lock, point, threads } => write!(
                f,
                "{threads} thread(s) were still queueing for {lock} after the window was over \
                 ({point}); they were ended with their process, and the check of mutual exclusion \
                 allows for one update from each"
            ),
            Warning::NoWaits { lock, handed_to_libc: 0 } => write!(
                f,
                "under {lock} no thread of the program ever waited for a pthread lock, so the \
                 choice of lock can't matter much; give it more threads, or know that locks of \
                 other kinds (Go's, Java's, Rust's std, C11's mtx_t) are not replaced"
            ),
            Warning::NoWaits { lock, handed_to_libc } => write!(
                f,
                "under {lock} the program waited for no lock but libc's own ({handed_to_libc} \
                 calls): process-shared, robust and priority-inheriting ones are not replaced"
            ),
        }
    }
}
