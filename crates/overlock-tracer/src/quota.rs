// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a process belongs to a group with a quota of processor time, and what the quota has
//! cost.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where groups are mounted: version 2 alone, version 2 beside version 1, and version 1.
const MOUNTS: [&str; 4] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu,cpuacct",
];
/// How long the answers "yes" and "no" hold: a process joins its group when it has just started.
const YES_HOLDS_NS: u64 = 1_000_000_000;
const NO_HOLDS_NS: u64 = 10_000_000;

/// Answers for processes.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    known: HashMap<u32, (u64, bool)>,
}

impl Quotas {
    /// Returns whether a process has a quota, as of about this time.
    pub(crate) fn has_one(&mut self, at: u64, process: u32) -> bool {
        match self.known.get(&process) {
            Some((asked, true)) if at.saturating_sub(*asked) < YES_HOLDS_NS => true,
            Some((asked, false)) if at.saturating_sub(*asked) < NO_HOLDS_NS => false,
            _ => {
                let groups = groups(process);
                // Of a process that has ended, the last answer holds.
                let last = self.known.get(&process).is_some_and(|(_, answer)| *answer);
                let answer = if groups.is_empty() {
                    last
                } else {
                    groups.iter().any(|group| is_limited(group))
                };
                self.known.insert(process, (at, answer));
                answer
            }
        }
    }
}

/// How long the quotas of a process's groups have stopped threads since some moment.
#[derive(Debug)]
pub(crate) struct Stopped {
    groups: Vec<PathBuf>,
    before_ns: u64,
}

impl Stopped {
    pub(crate) fn new(process: u32) -> Self {
        let groups = groups(process);
        Stopped { before_ns: stopped_ns(&groups), groups }
    }

    /// Returns the time since then, in nanoseconds of processor time.
    pub(crate) fn since_ns(&self) -> u64 {
        stopped_ns(&self.groups).saturating_sub(self.before_ns)
    }
}

fn stopped_ns(groups: &[PathBuf]) -> u64 {
    let value = |group: &PathBuf| {
        let text = std::fs::read_to_string(group.join("cpu.stat")).ok()?;
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        field("throttled_usec ").map(|us: u64| us * 1000).or_else(|| field("throttled_time "))
    };
    groups.iter().filter_map(value).max().unwrap_or(0)
}

/// Returns the folders of a process's groups, and of the groups around them.
fn groups(process: u32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let is_cpu = |line: &&str| {
        let kinds = line.split(':').nth(1).unwrap_or_default();
        kinds.is_empty() || kinds.split(',').any(|kind| kind == "cpu")
    };
    let mut all = Vec::new();
    for path in text.lines().filter(is_cpu).filter_map(|line| line.splitn(3, ':').nth(2)) {
        let path = Path::new(path.trim_start_matches('/'));
        for mount in MOUNTS.map(Path::new) {
            all.extend(path.ancestors().map(|part| mount.join(part)));
        }
    }
    all
}

fn is_limited(group: &Path) -> bool {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).unwrap_or_default();
    let (new, old) = (read("cpu.max"), read("cpu.cfs_quota_us"));
    (!new.is_empty() && !new.starts_with("max")) || old.trim().parse::<i64>().is_ok_and(|us| us > 0)
}
