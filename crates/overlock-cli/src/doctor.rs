// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock doctor`: what this machine offers, and what would be better.
//!
//! Every finding is something that changes how locks behave here, or how far a measurement can be
//! trusted. None of them fails: the exit code is 0 whatever the findings.

use crate::args::DoctorArgs;
use crate::machine::{self, CpuTimes, first_line};
use crate::outcome::Outcome;
use crate::{output, sys, terminal};
use anyhow::Result;
use overlock::platform::Threads;
use overlock_world::clock::{self, Stamps};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long `doctor` watches steal.
const STEAL_WATCH: Duration = Duration::from_millis(500);

/// One finding.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    found: String,
    /// What would be better; absent if nothing would.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn new(name: &'static str, found: impl Into<String>) -> Self {
        Finding { name, found: found.into(), advice: None }
    }

    /// Lays the finding out in two columns, the first as wide as the `longest` name; or one below
    /// the other where the second would be narrow.
    fn row(&self, longest: usize, width: Option<usize>) -> String {
        const NARROW: usize = 40;
        let Finding { name, found, advice } = self;
        let mark = if advice.is_some() { "!" } else { " " };
        let first = format!("{mark} {name:longest$}  ");
        let (mut text, indent) = match width {
            Some(width) if width < first.len() + NARROW => (format!("{mark} {name}\n"), 4),
            _ => (String::new(), first.len()),
        };
        let blank = " ".repeat(indent);
        let first = if text.is_empty() { &first } else { &blank };
        text += &terminal::filled(found, first, &blank, width);
        if let Some(advice) = advice {
            let (first, rest) = (format!("{blank}-> "), format!("{blank}   "));
            text += "\n";
            text += &terminal::filled(advice, &first, &rest, width);
        }
        text
    }

    fn advise(mut self, needed: bool, advice: impl Into<String>) -> Self {
        if needed {
            self.advice = Some(advice.into());
        }
        self
    }
}

#[derive(Serialize)]
struct DoctorRecord {
    kind: &'static str,
    version: &'static str,
    commit: &'static str,
    findings: Vec<Finding>,
}

/// Runs the sub-command.
pub(crate) fn main(args: &DoctorArgs) -> Result<Outcome> {
    if let Some(path) = &args.calibrate {
        return crate::calibrate::main(path);
    }
    let mut findings = vec![
        cpus(),
        quota(),
        load(),
        steal(),
        hypervisor(),
        kernel(),
        tick(),
        tsc(),
        governor(),
        futex(),
        restartable_sequences(),
        slice_extension(),
        preload_library(),
    ];
    findings.extend(engines());
    if args.json {
        let record = DoctorRecord {
            kind: "doctor",
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("OVERLOCK_COMMIT"),
            findings,
        };
        output::print(&serde_json::to_string(&record)?)?;
        return Ok(Outcome::Fine);
    }
    let longest = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    for finding in &findings {
        output::print(&finding.row(longest, terminal::stdout_width()))?;
    }
    Ok(Outcome::Fine)
}

fn cpus() -> Finding {
    let allowed = sys::allowed_cpus();
    let online = fs::read_to_string("/proc/cpuinfo")
        .map_or(allowed, |text| text.lines().filter(|line| line.starts_with("processor")).count());
    let online = online.max(allowed);
    Finding::new("CPUs", format!("{allowed} usable of {online} online"))
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

/// Finds the tightest CPU limit of this process's cgroup and all above it.
fn quota() -> Finding {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let inside = Path::new(path.trim_start_matches('/'));
    let limits = inside.ancestors().filter_map(|folder| {
        let file = PathBuf::from("/sys/fs/cgroup").join(folder).join("cpu.max");
        cpu_max(&fs::read_to_string(file).ok()?)
    });
    match limits.min_by(f64::total_cmp) {
        None => Finding::new("cgroup CPU limit", "none"),
        Some(cpus) => Finding::new("cgroup CPU limit", format!("{cpus:.2} CPUs")).advise(
            true,
            "when the quota is used up every thread stops, including a lock holder; set a larger \
             quota for clean measurements, or keep it to see what production sees",
        ),
    }
}

/// Reads `quota period` in microseconds as a number of CPUs; nothing for `max`.
fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn load() -> Finding {
    let load = machine::load_average();
    let busy = load > 0.5 * sys::allowed_cpus() as f64;
    Finding::new("load average", format!("{load}"))
        .advise(busy, "other processes are running; trust only ratios of interleaved runs")
}

fn steal() -> Finding {
    let before = CpuTimes::now();
    std::thread::sleep(STEAL_WATCH);
    let share = |times: CpuTimes| 100.0 * times.steal_share();
    let (now, since_boot) = (share(CpuTimes::now().since(before)), share(CpuTimes::now()));
    Finding::new("steal", format!("{now:.1} % now, {since_boot:.1} % since boot")).advise(
        now > 2.0,
        "the hypervisor takes CPU time away; measure when the host is quieter, and prefer locks \
         that wait over locks that spin",
    )
}

fn hypervisor() -> Finding {
    match machine::hypervisor() {
        None => Finding::new("hypervisor", "none: bare metal"),
        Some(name) => Finding::new("hypervisor", name).advise(
            true,
            "a virtual CPU can lose its processor while it holds a lock; `bench` reports steal for \
             every run",
        ),
    }
}

fn kernel() -> Finding {
    let read = |name| first_line(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    Finding::new("kernel", format!("{} {}", read("osrelease"), read("version")))
}

fn tick() -> Finding {
    let Some(nanos) = sys::tick_ns() else { return Finding::new("scheduler tick", "unknown") };
    let millis = nanos as f64 / 1e6;
    Finding::new("scheduler tick", format!("{millis} ms")).advise(
        millis > 3.0,
        "a preempted lock holder is away for at least a tick; CONFIG_HZ=1000 makes that 1 ms",
    )
}

fn tsc() -> Finding {
    let clock = Stamps::calibrate();
    let found = clock.tsc_khz().map_or_else(
        || "not trusted: clock_gettime is used".into(),
        |khz| format!("trusted, {:.1} MHz", khz as f64 / 1e3),
    );
    Finding::new("time stamp counter", found).advise(
        cfg!(target_arch = "x86_64") && !clock::tsc_is_trusted(),
        "time stamps cost more without it; see /sys/devices/system/clocksource and the boot log",
    )
}

fn governor() -> Finding {
    match first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Finding::new("CPU frequency", "not under this kernel's control"),
        Some(name) => {
            let advice = "a changing frequency changes the length of critical sections: \
                          cpupower frequency-set -g performance";
            Finding::new("CPU frequency", format!("governor {name}"))
                .advise(name != "performance", advice)
        }
    }
}

fn futex() -> Finding {
    match sys::futex_works() {
        Ok(()) => Finding::new("futex", "works"),
        Err(error) => Finding::new("futex", error.to_string()).advise(
            true,
            "locks that halt need futex(2); a sandbox seems to forbid it, so waiters can only spin",
        ),
    }
}

fn restartable_sequences() -> Finding {
    let armed = Threads::has_restartable_sequences();
    let found = if armed { "armed" } else { "not available" };
    Finding::new("restartable sequences", found).advise(
        !armed,
        "with rseq(2), membarrier(2) (Linux 5.10) and the GNU C library 2.35 on x86-64, \
         an uncontended lock is released without an atomic read-modify-write",
    )
}

fn slice_extension() -> Finding {
    let found = if sys::slice_extension() { "available" } else { "not in this kernel" };
    Finding::new("rseq slice extension", found).advise(
        !sys::slice_extension(),
        "Linux 7.0 with CONFIG_RSEQ_SLICE_EXTENSION lets a lock holder ask for a few microseconds \
         more before it is preempted",
    )
}

/// Checks the engines of virtual CPUs and reports what each says of itself.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn engines() -> [Finding; 2] {
    overlock_worlds::engines().map(|(name, available)| match available {
        Ok(()) => Finding::new(name, "usable: an engine of `lab`"),
        Err(why) => Finding::new(name, why).advise(true, "until then `lab` uses the other engine"),
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn engines() -> [Finding; 1] {
    [Finding::new("/dev/kvm", "not usable").advise(true, "`lab` needs Linux on x86-64")]
}

fn preload_library() -> Finding {
    match overlock_launch::Library::find().map(|library| library.path) {
        Ok(path) => Finding::new("preload library", path.display().to_string()),
        Err(error) => Finding::new("preload library", "not found")
            .advise(true, format!("`run` and `compare` need it: {error:#}")),
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
    }
}
