// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records as a reader sees them: the fields that a chart needs are typed, and can be absent.

use overlock_world::WaitNs;
use overlock_world::stats::Interval;
use overlock_world::stats::Spread;
use serde::Deserialize;
use serde_json::Value;

/// The first record of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Head {
    pub(crate) version: Option<String>,
    pub(crate) commit: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) machine: Machine,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    pub(crate) cpus: Option<u64>,
    pub(crate) cpu_model: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) hypervisor: Option<String>,
    pub(crate) load_average: Option<f64>,
}

/// One lock at one point, from any world.
#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    pub(crate) world: String,
    pub(crate) workload: String,
    pub(crate) lock: String,
    #[serde(default)]
    pub(crate) policy: Option<String>,
    pub(crate) timer: Option<String>,
    pub(crate) cpus: Option<u32>,
    pub(crate) pcpus: Option<u32>,
    pub(crate) cs_ns: Option<u64>,
    pub(crate) ncs_ns: Option<u64>,
    pub(crate) contention: Option<f64>,
    pub(crate) lengths: Option<String>,
    pub(crate) locks_count: Option<u32>,
    pub(crate) then_ns: Option<[u64; 2]>,
    pub(crate) uneven: Option<u32>,
    pub(crate) seconds: Option<f64>,
    #[serde(default)]
    pub(crate) samples: Vec<serde::de::IgnoredAny>,
    pub(crate) ops_per_s: Option<Interval>,
    pub(crate) ops_per_cpu: Option<Spread>,
    pub(crate) jain: Option<f64>,
    pub(crate) wait_ns: Option<WaitNs>,
    #[serde(default)]
    pub(crate) wait_counts: Vec<(u64, u64)>,
    pub(crate) longest_stall_ns: Option<u64>,
    pub(crate) long_stalls: Option<u64>,
    pub(crate) cpu_s_per_s: Option<f64>,
    pub(crate) steal: Option<f64>,
    pub(crate) interval_coverage: Option<f64>,
    pub(crate) of_1x: Option<Interval>,
    pub(crate) of_best_peer: Option<Interval>,
    pub(crate) of_report: Option<Interval>,
    pub(crate) timer_read_ns: Option<Interval>,
    pub(crate) metric: Option<String>,
    pub(crate) value: Option<Interval>,
    pub(crate) baseline: Option<String>,
    pub(crate) of_baseline: Option<Interval>,
}

/// One lock over all points of a benchmark.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    pub(crate) lock: String,
    pub(crate) of_best_peer: Option<Interval>,
}

/// vCPU, state (`running`, `ready`, `halted`), pCPU, from, to.
pub(crate) type Stint = (u32, String, Option<u32>, u64, u64);

/// vCPU, lock, asked, taken, released; the last two are absent if they came after the end.
pub(crate) type Hold = (u32, u32, u64, Option<u64>, Option<u64>);

/// Which vCPU ran where, waited for which lock and held which, for a part of a run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Timeline {
    pub(crate) world: String,
    pub(crate) workload: String,
    pub(crate) lock: String,
    pub(crate) policy: String,
    pub(crate) cpus: u32,
    pub(crate) pcpus: u32,
    pub(crate) cs_ns: u64,
    pub(crate) ncs_ns: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// Throughput of the recorded run over the median of the others.
    pub(crate) speed: Option<f64>,
    pub(crate) stints: Vec<Stint>,
    pub(crate) holds: Vec<Hold>,
}

/// A sentence in which a command ended, and other records that are shown unchanged.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) kind: String,
    pub(crate) value: Value,
}

impl Machine {
    /// Returns whether it is the same machine, whatever its load.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let load_average = other.load_average;
        Machine { load_average, ..self.clone() } == *other
    }
}

impl Point {
    /// Returns the lock; its yield policy if it has one; the rule of the timer if it was read.
    pub(crate) fn series(&self) -> String {
        let policy = self.policy.as_deref().filter(|policy| *policy != "none");
        let lock = Some(self.lock.as_str()).filter(|lock| *lock != "none" || self.timer.is_none());
        let parts = [lock, policy, self.timer.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns whether threads or programs ran on the machine itself, as in `bench` and `compare`;
    /// the spread of its lengths distinguishes a point of `bench` from one of the laboratory's
    /// threads.
    pub(crate) fn is_real(&self) -> bool {
        self.world == "process" || self.long_stalls.is_some()
    }

    /// Returns the name of what shares the processors.
    pub(crate) fn sharer(&self) -> &'static str {
        if self.is_real() { "thread" } else { "vCPU" }
    }

    /// Returns the name of what they share.
    pub(crate) fn shared(&self) -> &'static str {
        if self.is_real() { "CPU" } else { "pCPU" }
    }

    /// Returns the vCPUs for each pCPU, or threads for each CPU.
    pub(crate) fn over(&self) -> Option<f64> {
        let (cpus, pcpus) = (self.cpus?, self.pcpus.filter(|pcpus| *pcpus > 0)?);
        Some(f64::from(cpus) / f64::from(pcpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::point;

    fn read(row: &str) -> Point {
        serde_json::from_str(row).unwrap()
    }

    #[test]
    fn a_series_is_a_lock_with_its_policy_and_timer() {
        let of = |policy: &str, timer: &str| {
            let row = point("none", 2, 1.0).replace(r#""policy":"none""#, policy);
            read(&row.replace(r#""cpus":2"#, &format!(r#""cpus":2{timer}"#))).series()
        };
        assert_eq!(of(r#""policy":"none""#, ""), "none");
        assert_eq!(of(r#""policy":"oracle""#, ""), "none, oracle");
        assert_eq!(of(r#""policy":"none""#, r#","timer":"lock-free""#), "lock-free");
    }

    #[test]
    fn threads_share_cpus_and_vcpus_share_pcpus() {
        let lab = read(&point("hybrid", 4, 1.0));
        assert_eq!((lab.sharer(), lab.shared(), lab.over()), ("vCPU", "pCPU", Some(2.0)));
        let bench = point("hybrid", 4, 1.0).replace(r#""jain""#, r#""long_stalls":0,"jain""#);
        assert_eq!((read(&bench).sharer(), read(&bench).shared()), ("thread", "CPU"));
    }

    #[test]
    fn a_machine_is_the_same_under_any_load() {
        let machine = |load, cpus| Machine {
            cpus: Some(cpus),
            load_average: Some(load),
            ..Machine::default()
        };
        assert!(machine(0.5, 2).is(&machine(7.0, 2)));
        assert!(!machine(0.5, 2).is(&machine(0.5, 4)));
    }
}
