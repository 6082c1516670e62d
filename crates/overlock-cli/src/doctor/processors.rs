//! The processors, and what takes them away.

use crate::machine::{self, CpuTimes, allowed_cpus, first_line};
use overlock_results::row::Symptom;
use std::fs;
use std::time::Duration;

const STEAL_WATCH: Duration = Duration::from_millis(500);

pub(super) fn cpus() -> Symptom {
    let allowed = allowed_cpus();
    let online = fs::read_to_string("/proc/cpuinfo")
        .map_or(allowed, |text| text.lines().filter(|line| line.starts_with("processor")).count());
    let online = online.max(allowed);
    Symptom::new("CPUs", format!("{allowed} usable of {online} online"))
        .advise(
            allowed < online,
            "an affinity mask or a cgroup limits this process; the choice of lock matters most with \
             more threads than usable CPUs",
        )
        .advise(
            allowed == 1,
            "with one CPU a spinning waiter can only keep the holder from running; measure on 2 or \
             more to see contention",
        )
}

/// Finds the tightest CPU limit of this process's cgroups, of version 1 or 2, and of all above
/// them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) fn quota() -> Symptom {
    match overlock_trace::quota_of(std::process::id()) {
        None => Symptom::new("cgroup CPU limit", "none"),
        Some(cpus) => Symptom::new("cgroup CPU limit", format!("{cpus:.2} CPUs")).advise(
            true,
            "when the quota is used up every thread stops, including a lock holder; set a larger \
             quota for clean measurements, or keep it to see what production sees",
        ),
    }
}

/// What reads groups is the tracer, which is for another architecture.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn quota() -> Symptom {
    Symptom::new("cgroup CPU limit", "not read on this architecture")
}

pub(super) fn load() -> Symptom {
    let load = machine::load_average();
    let busy = load > 0.5 * allowed_cpus() as f64;
    Symptom::new("load average", format!("{load}"))
        .advise(busy, "other processes are running; trust only ratios of interleaved runs")
}

pub(super) fn steal() -> Symptom {
    let before = CpuTimes::now();
    std::thread::sleep(STEAL_WATCH);
    let share = |times: CpuTimes| 100.0 * times.steal_share();
    let (now, since_boot) = (share(CpuTimes::now().since(before)), share(CpuTimes::now()));
    Symptom::new("steal", format!("{now:.1} % now, {since_boot:.1} % since boot")).advise(
        now > 2.0,
        "the hypervisor takes CPU time away; measure when the host is quieter, and prefer locks \
         that wait over locks that spin",
    )
}

pub(super) fn hypervisor() -> Symptom {
    match machine::hypervisor() {
        None => Symptom::new("hypervisor", "none: bare metal"),
        Some(name) => Symptom::new("hypervisor", name).advise(
            true,
            "a virtual CPU can lose its processor while it holds a lock; `bench` reports steal for \
             every run",
        ),
    }
}

pub(super) fn governor() -> Symptom {
    match first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Symptom::new("CPU frequency", "not under this kernel's control"),
        Some(name) => {
            let advice = "a changing frequency changes the length of critical sections: \
                          cpupower frequency-set -g performance";
            Symptom::new("CPU frequency", format!("governor {name}"))
                .advise(name != "performance", advice)
        }
    }
}
