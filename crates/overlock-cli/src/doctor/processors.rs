//! The processors, and what takes them away.

use crate::machine::{self, CpuTimes, allowed_cpus, first_line};
use overlock_results::row::Symptom;
use std::fs;
use std::path::Path;
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
pub(super) fn quota() -> Symptom {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = cgroups.lines().filter_map(cpu_group).flat_map(|(mount, group)| {
        let folders = Path::new(group.trim_start_matches('/')).ancestors();
        folders.filter_map(|folder| limit(&Path::new(mount).join(folder))).collect::<Vec<_>>()
    });
    match limits.min_by(f64::total_cmp) {
        None => Symptom::new("cgroup CPU limit", "none"),
        Some(cpus) => Symptom::new("cgroup CPU limit", format!("{cpus:.2} CPUs")).advise(
            true,
            "when the quota is used up every thread stops, including a lock holder; set a larger \
             quota for clean measurements, or keep it to see what production sees",
        ),
    }
}

/// Reads a line of `/proc/self/cgroup`: where the hierarchy that limits CPU time is mounted, and
/// the group in it.
fn cpu_group(line: &str) -> Option<(&'static str, &str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    match controllers {
        "" => Some(("/sys/fs/cgroup", group)),
        _ if controllers.split(',').any(|name| name == "cpu") => {
            Some(("/sys/fs/cgroup/cpu", group))
        }
        _ => None,
    }
}

fn limit(folder: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    match read("cpu.max") {
        Some(text) => cpu_max(&text),
        None => cpu_max(&[read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?].join(" ")),
    }
}

/// Reads `quota period` in microseconds as a number of CPUs; nothing for no limit, which is `max`
/// in version 2 and -1 in version 1.
fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    (quota > 0.0).then_some(quota / period)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_cpus() {
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max(""), None);
        assert_eq!(cpu_max("50000\n 100000\n"), Some(0.5));
        assert_eq!(cpu_max("-1\n 100000\n"), None);
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        assert_eq!(cpu_group("0::/a/b"), Some(("/sys/fs/cgroup", "/a/b")));
        assert_eq!(cpu_group("4:cpu,cpuacct:/c:d"), Some(("/sys/fs/cgroup/cpu", "/c:d")));
        assert_eq!(cpu_group("3:cpuset:/e"), None);
        assert_eq!(cpu_group(""), None);
    }
}
