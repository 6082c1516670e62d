//! How the machine's CPUs spent their time, and how much of it went to others.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};

/// CPU time of the whole machine from /proc/stat, in its ticks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CpuTimes {
    /// All of it, idle time included.
    pub total: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal: u64,
    /// Time that processes and interrupts of this machine took.
    #[serde(default)]
    pub busy: u64,
}

/// Ticks of /proc/stat in a second: `USER_HZ`, which is the same on all Linux.
const TICKS_PER_S: f64 = 100.0;

impl CpuTimes {
    /// Sums up the CPUs that this process may run on; load on other CPUs disturbs nothing here.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut sum = CpuTimes::default();
        for (cpu, line) in text.lines().filter_map(|line| Some((cpu_number(line)?, line))) {
            if may_run_on(cpu) {
                sum += Self::parse(line);
            }
        }
        sum
    }

    /// Reads `cpuN user nice system idle iowait irq softirq steal guest guest_nice`, of which the
    /// last two are already counted in the first two.
    fn parse(line: &str) -> Self {
        let fields: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        CpuTimes {
            total: fields.iter().take(8).sum(),
            steal: field(7),
            busy: field(0) + field(1) + field(2) + field(5) + field(6),
        }
    }

    pub fn since(self, earlier: Self) -> Self {
        CpuTimes {
            total: self.total.saturating_sub(earlier.total),
            steal: self.steal.saturating_sub(earlier.steal),
            busy: self.busy.saturating_sub(earlier.busy),
        }
    }

    /// Returns the share (0 to 1) of all CPU time that neither was idle nor went to a process that
    /// used `own_seconds`: what the hypervisor and other processes took. Two ticks or less count as
    /// rounding.
    pub fn disturbance(self, own_seconds: f64) -> f64 {
        let others = (self.busy as f64 - own_seconds * TICKS_PER_S).max(0.0);
        let taken = self.steal as f64 + others;
        if taken <= 2.0 { 0.0 } else { taken / self.total.max(1) as f64 }
    }

    /// Returns the share (0 to 1) of all CPU time that the hypervisor gave to other guests.
    pub fn steal_share(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.steal as f64 / self.total as f64 }
    }
}

/// Returns the number of the CPU that a line of /proc/stat describes, if it describes one.
fn cpu_number(line: &str) -> Option<usize> {
    line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()
}

impl std::ops::AddAssign for CpuTimes {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.steal += other.steal;
        self.busy += other.busy;
    }
}

/// Returns whether this thread may run on CPU number `cpu`; yes if the system doesn't tell.
pub fn may_run_on(cpu: usize) -> bool {
    sched_getaffinity(None).map_or(true, |set| cpu >= CpuSet::MAX_CPU || set.is_set(cpu))
}

/// How many CPUs this thread may run on; at least one.
pub fn allowed_cpus() -> u32 {
    sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

pub fn run_on(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_field() {
        let earlier = CpuTimes::parse("cpu  100 0 50 800 0 0 0 10 0 0");
        let later = CpuTimes::parse("cpu  140 0 60 830 0 0 0 30 99 0");
        let passed = later.since(earlier);
        assert_eq!((passed.total, passed.steal), (100, 20));
        assert!((passed.steal_share() - 0.2).abs() < 1e-9);
        assert!(CpuTimes::parse("").steal_share() == 0.0);
    }

    #[test]
    fn lines_of_single_cpus_are_recognised() {
        let lines = ["cpu  1 2 3", "cpu0 1 2 3", "cpu17 1 2 3", "intr 5", ""];
        assert_eq!(lines.map(cpu_number), [None, Some(0), Some(17), None, None]);
        assert!(CpuTimes::now().total > 0);
    }

    #[test]
    fn the_time_of_other_processes_is_not_ours() {
        let passed = CpuTimes { total: 100, steal: 10, busy: 70 };
        // 50 ticks are ours, so others took 20.
        assert!((passed.disturbance(0.5) - 0.3).abs() < 1e-9);
        assert!(CpuTimes { steal: 1, ..passed }.disturbance(0.69) == 0.0);
        assert!(CpuTimes { steal: 0, ..passed }.disturbance(0.75) == 0.0);
    }
}
