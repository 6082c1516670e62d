// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine behind the numbers, and how quiet it was.

use overlock_world::clock::Stamps;
use serde::{Deserialize, Serialize};
use std::fs;

/// The machine, as every result file describes it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// CPUs this process may use.
    pub(crate) cpus: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    pub(crate) hypervisor: Option<String>,
    /// Rate of the time stamp counter if it was the clock; otherwise `clock_gettime` was.
    pub(crate) tsc_khz: Option<u64>,
    /// Load average of the last minute when the run began.
    pub(crate) load_average: f64,
}

impl Machine {
    pub(crate) fn observe(clock: &Stamps) -> Self {
        Machine {
            cpus: crate::sys::allowed_cpus(),
            cpu_model: cpu_model(),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            hypervisor: hypervisor(),
            tsc_khz: clock.tsc_khz(),
            load_average: load_average(),
        }
    }
}

/// Returns the first line of a file, trimmed, if it can be read and is not empty.
pub(crate) fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns the value of the first `key : value` line in /proc/cpuinfo.
pub(crate) fn cpuinfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn cpu_model() -> String {
    cpuinfo("model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// Names the hypervisor underneath, if the CPU admits to having one.
pub(crate) fn hypervisor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    if cpuinfo("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
        let bytes: Vec<u8> =
            [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned();
        return Some(match name.as_str() {
            "KVMKVMKVM" => "KVM".into(),
            "XenVMMXenVMM" => "Xen".into(),
            "Microsoft Hv" => "Hyper-V".into(),
            "VMwareVMware" => "VMware".into(),
            _ => name,
        });
    }
    first_line("/sys/hypervisor/type")
}

/// Returns the load average of the last minute; 0 if it can't be read.
pub(crate) fn load_average() -> f64 {
    first_line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// CPU time of the whole machine from /proc/stat, in its ticks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CpuTimes {
    pub(crate) total: u64,
    pub(crate) steal: u64,
    /// Time that processes and interrupts of this machine took.
    #[serde(default)]
    pub(crate) busy: u64,
}

/// Ticks of /proc/stat in a second: `USER_HZ`, which is the same on all Linux.
const TICKS_PER_S: f64 = 100.0;

impl CpuTimes {
    /// Sums up the CPUs that this process may run on; load on other CPUs disturbs nothing here.
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut sum = CpuTimes::default();
        for (cpu, line) in text.lines().filter_map(|line| Some((cpu_number(line)?, line))) {
            if crate::sys::may_run_on(cpu) {
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

    /// Returns the time that has passed since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        CpuTimes {
            total: self.total.saturating_sub(earlier.total),
            steal: self.steal.saturating_sub(earlier.steal),
            busy: self.busy.saturating_sub(earlier.busy),
        }
    }

    /// Returns the share (0 to 1) of all CPU time that neither was idle nor went to a process that
    /// used `own_seconds`: what the hypervisor and other processes took. Two ticks or less count as
    /// rounding.
    pub(crate) fn disturbance(self, own_seconds: f64) -> f64 {
        let others = (self.busy as f64 - own_seconds * TICKS_PER_S).max(0.0);
        let taken = self.steal as f64 + others;
        if taken <= 2.0 { 0.0 } else { taken / self.total.max(1) as f64 }
    }

    /// Returns the share (0 to 1) of all CPU time that the hypervisor gave to other guests.
    pub(crate) fn steal_share(self) -> f64 {
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
