//! A program as a supervised child, and what it leaves behind.
//!
//! What the program has started becomes our child when its parent ends, wherever it has put itself
//! (`PR_SET_CHILD_SUBREAPER`), so a daemon is noticed.

use crate::others::{Process, processes};
use crate::starter::{Launch, reap};
use crate::{Bond, Child};
use anyhow::{Context, Result};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long killed processes may take to end.
const DYING: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "ended with code {code}"),
            Ended::Signal(signal) => {
                write!(f, "crashed: signal {signal} ({})", signal_name(*signal))
            }
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Ended::Signal(signal),
            None => Ended::Code(status.code().unwrap_or(0)),
        }
    }
}

/// Starts a program, as a child that dies with this process if it leads a group of its own.
///
/// # Errors
/// If the system does not start it, or offers no pidfd (Linux 5.3).
pub fn start(plan: Launch) -> Result<Child> {
    // This process becomes the parent of its descendants whose own has ended.
    let _ = set_child_subreaper(Some(getpid()));
    let bond = if plan.own_group { Bond::Group } else { Bond::Free };
    let (pid, started) = plan.start()?;
    Child::adopt(pid, started, bond).context("can't watch a process (needs Linux 5.3)")
}

/// Kills all that is left of a program that led this process group and has ended. Returns the names
/// of processes that had left the group, as daemons do.
pub(crate) fn kill_rest(group: i32) -> Vec<String> {
    let (end, mut strays) = (Instant::now() + DYING, Vec::new());
    loop {
        reap_orphans();
        let left = orphans();
        if left.is_empty() || Instant::now() > end {
            return strays;
        }
        for orphan in &left {
            if orphan.group != group && !orphan.is_zombie {
                strays.push(orphan.name.clone());
            }
            orphan.signal(libc::SIGKILL);
        }
        left.iter().for_each(|orphan| reap(orphan.pid));
    }
}

/// A process whose parent has ended, so that it is our child now.
#[derive(Debug)]
pub struct Orphan {
    pub pid: i32,
    pub name: String,
    group: i32,
    is_zombie: bool,
}

impl Orphan {
    pub fn signal(&self, signal: i32) {
        // SAFETY: takes two integers and touches no memory.
        unsafe { libc::kill(self.pid, signal) };
    }
}

pub fn reap_orphans() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Lists the children of this process. While a program runs, it is among them.
pub fn orphans() -> Vec<Orphan> {
    let me = std::process::id().cast_signed();
    let is_child = |process: &Process| process.parent == me;
    let children = processes().into_iter().filter(is_child);
    let orphan = |process: Process| Orphan {
        pid: process.pid,
        group: process.group,
        is_zombie: process.is_zombie,
        name: fs::read_link(format!("/proc/{}/exe", process.pid))
            .map_or(process.name, |path| path.display().to_string()),
    };
    children.map(orphan).collect()
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).unwrap_or("unnamed").to_owned()
}
