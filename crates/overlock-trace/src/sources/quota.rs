//! Whether a process belongs to a group with a quota of processor time, and what the quota has
//! cost.

use crate::analysis::hash::HashMap;
use crate::sources::account::numbers;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Where groups are mounted: version 2 alone, version 2 beside version 1, and version 1.
const MOUNTS: [&str; 4] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu,cpuacct",
];
/// When quotas have stopped groups, by the kernel's account of each group, which grows when a group
/// may go on.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// The groups with a quota that a process is in, as far as it is in any.
    of: HashMap<u32, Vec<PathBuf>>,
    /// Their accounts: when they were read, and what they said.
    accounts: HashMap<Vec<PathBuf>, VecDeque<(u64, u64)>>,
    /// What an account said at the end of each thread's last stop.
    counted: HashMap<u32, u64>,
    asked: u64,
    /// On which processors threads that run may do so, and how often that was seen.
    allowed: HashMap<String, usize>,
}

/// How often processes are asked for their groups, and how many of them.
const ASK_EVERY_NS: u64 = 20_000_000;
const MOST_ASKED: usize = 256;
/// How many threads are asked for their processors: that takes some microseconds for each.
const MOST_RUNNING: usize = 16;
/// How many readings of an account are remembered: some seconds' worth.
const MOST_READ: usize = 4096;
/// A quota stops threads for longer than this.
const SHORTEST_STOP_NS: u64 = 1_000_000;

impl Stops {
    /// Reads the accounts. Of what happened until then, the quotas' part is known now. Some threads
    /// run at present.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        threads: &HashMap<u32, u32>,
        running: impl Iterator<Item = u32>,
    ) {
        if now.saturating_sub(self.asked) >= ASK_EVERY_NS {
            self.asked = now;
            let processes: BTreeSet<u32> = threads.values().copied().collect();
            let mut before = std::mem::take(&mut self.of);
            for process in processes.into_iter().take(MOST_ASKED) {
                let all = groups(process);
                let limited = match all.is_empty() {
                    // Of a process that has ended, the last answer holds.
                    true => before.remove(&process).unwrap_or_default(),
                    false => all.into_iter().filter(|group| limit(group).is_some()).collect(),
                };
                if !limited.is_empty() {
                    self.accounts.entry(limited.clone()).or_default();
                    self.of.insert(process, limited);
                }
            }
            self.counted.retain(|thread, _| threads.contains_key(thread));
            for list in running.take(MOST_RUNNING).filter_map(processors_of) {
                *self.allowed.entry(list).or_default() += 1;
            }
        }
        for (groups, account) in &mut self.accounts {
            // A group that is gone has no account any more.
            let before = account.back().map_or(0, |(_, stopped)| *stopped);
            account.push_back((now, stopped_ns(groups).max(before)));
            if account.len() > MOST_READ {
                account.pop_front();
            }
        }
    }

    /// Returns how many processors the smallest quota of all is worth.
    pub(crate) fn limit(&self) -> Option<f64> {
        let limits = self.accounts.keys().flatten().filter_map(|group| limit(group));
        limits.min_by(f64::total_cmp)
    }

    /// Returns how many processors the threads that ran may use, if any was seen to run. What few
    /// of them were allowed, as before a thread is bound to a processor, does not count.
    pub(crate) fn allowed(&self) -> Option<usize> {
        let all: usize = self.allowed.values().sum();
        let common = self.allowed.iter().filter(|(_, times)| **times * 10 >= all);
        let processors: BTreeSet<i32> = common.flat_map(|(list, _)| numbers(list)).collect();
        (!processors.is_empty()).then_some(processors.len())
    }

    pub(crate) fn are_none(&self) -> bool {
        self.of.is_empty()
    }

    pub(crate) fn has_quota(&self, process: u32) -> bool {
        self.of.contains_key(&process)
    }

    /// Returns for how long a quota had stopped a thread of the process that could run, and had no
    /// processor between two times: by how much the group's account has grown when that ended. The
    /// thread may have waited for a processor, too, since its group could go on.
    pub(crate) fn stopped(&mut self, process: u32, thread: u32, from: u64, to: u64) -> u64 {
        let length = to.saturating_sub(from);
        let account = self.of.get(&process).and_then(|groups| self.accounts.get(groups));
        let Some(account) = account.filter(|_| length >= SHORTEST_STOP_NS) else { return 0 };
        let next = account.partition_point(|(read, _)| *read < to);
        let first = account.partition_point(|(read, _)| *read < from);
        let (Some((_, before)), Some((_, after))) =
            (account.get(first.min(next.saturating_sub(1))), account.get(next))
        else {
            return 0;
        };
        // The thread's stop before this one may have ended since that reading.
        let before = self.counted.get(&thread).map_or(*before, |counted| *before.max(counted));
        let stopped = after.saturating_sub(before).min(length);
        if stopped > 0 {
            self.counted.insert(thread, *after);
        }
        stopped
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

/// Returns the list of the processors that a thread may use.
fn processors_of(thread: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| list.trim().to_owned())
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

/// Returns how many processors the smallest quota of a process's groups is worth, if there is one.
pub fn quota_of(process: u32) -> Option<f64> {
    groups(process).iter().filter_map(|group| limit(group)).min_by(f64::total_cmp)
}

/// Returns how many processors a group's quota is worth, if it has one.
fn limit(group: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|us| *us > 0.0);
    if let Some(both) = read("cpu.max") {
        let (quota, period) = both.split_once(' ')?;
        return Some(number(quota)? / number(period)?);
    }
    Some(number(&read("cpu.cfs_quota_us")?)? / number(&read("cpu.cfs_period_us")?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_where_the_groups_account_grows() {
        let groups = vec![PathBuf::from("group")];
        let ms = |ms: u64| ms * 1_000_000;
        let account = [(ms(10), 0), (ms(20), 0), (ms(30), ms(15)), (ms(40), ms(15))];
        let stopped = |process, times: &[(u64, u64)]| {
            let mut stops = Stops {
                of: [(1, groups.clone())].into_iter().collect(),
                accounts: [(groups.clone(), account.into())].into_iter().collect(),
                ..Stops::default()
            };
            times.iter().map(|(from, to)| stops.stopped(process, 7, *from, *to)).collect::<Vec<_>>()
        };
        assert_eq!(stopped(1, &[(ms(8), ms(25))]), [ms(15)]);
        assert_eq!(stopped(1, &[(ms(12), ms(35))]), [ms(15)], "and waited for a processor");
        assert_eq!(stopped(1, &[(ms(21), ms(24))]), [ms(3)], "another processor, too");
        assert_eq!(stopped(1, &[(ms(8), ms(25)), (ms(26), ms(29))]), [ms(15), 0], "counted");
        assert_eq!(stopped(1, &[(ms(15), ms(19))]), [0], "a neighbour");
        assert_eq!(stopped(1, &[(ms(24), ms(24) + 1000)]), [0], "too short");
        assert_eq!(stopped(1, &[(ms(30), ms(45))]), [0], "the account is older");
        assert_eq!(stopped(2, &[(ms(8), ms(25))]), [0], "another process");
    }

    #[test]
    fn quotas_of_both_versions_are_read_as_cpus() {
        let folder = std::env::temp_dir().join(format!("overlock-quota-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        for (quota, cpus) in [("50000\n", Some(0.5)), ("-1\n", None)] {
            write("cpu.cfs_quota_us", quota);
            write("cpu.cfs_period_us", "100000\n");
            assert_eq!(limit(&folder), cpus, "{quota}");
        }
        for (both, cpus) in [("150000 100000\n", Some(1.5)), ("max 100000\n", None), ("", None)] {
            write("cpu.max", both);
            assert_eq!(limit(&folder), cpus, "{both}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
