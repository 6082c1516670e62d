// SPDX-License-Identifier: MIT OR Apache-2.0
//! A supervised program: started, waited for to the microsecond, measured and, if need be, ended.
//!
//! The wait is on a pidfd, so it ends when the program does and not at the next poll; `wait4` then
//! returns what the program used. No thread of ours could disturb it.
//!
//! What the program has started becomes our child when its parent ends, wherever it has put itself
//! (`PR_SET_CHILD_SUBREAPER`), so a daemon is noticed.

use super::start::Plan;
use crate::interrupt::GroupWatch;
use crate::sys::{self, Usage};
use anyhow::{Context, Result};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long killed processes may take to end.
const DYING: Duration = Duration::from_secs(10);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "ended with code {code}"),
            Ended::Signal(signal) => {
                write!(f, "crashed: signal {signal} ({})", sys::signal_name(*signal))
            }
        }
    }
}

/// A program that has been started.
#[derive(Debug)]
pub(crate) struct Running {
    pid: i32,
    pidfd: OwnedFd,
    started: Instant,
    /// Wall time and usage, known once it has ended.
    pub(crate) wall: Duration,
    pub(crate) usage: Option<Usage>,
}

impl Running {
    /// Starts a program.
    pub(crate) fn start(plan: Plan) -> Result<Self> {
        adopt_orphans();
        let (pid, started) = plan.start()?;
        let pidfd = sys::pidfd_open(pid).context("can't watch a process (needs Linux 5.3)")?;
        Ok(Running { pid, pidfd, started, wall: Duration::ZERO, usage: None })
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for the end, at most for `limit` or until a signal comes; returns nothing if it still
    /// runs.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<Ended>> {
        if !sys::wait_readable(&self.pidfd, limit) {
            return Ok(None);
        }
        self.wall = self.started.elapsed();
        let (status, usage) = sys::wait4(self.pid).context("can't learn how a program ended")?;
        self.usage = Some(usage);
        Ok(Some(if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Code(libc::WEXITSTATUS(status))
        }))
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: i32) {
        sys::kill(self.pid, signal);
    }

    /// Makes a second Ctrl-C kill the process group that the program leads.
    pub(crate) fn watch_group(&self) -> GroupWatch {
        GroupWatch::new(self.pid)
    }

    /// Kills all that is left of the program, which led a process group and has ended. Returns the
    /// names of processes that had left the group, as daemons do.
    pub(crate) fn kill_rest(&self) -> Vec<String> {
        sys::kill(-self.pid, libc::SIGKILL);
        let (end, mut strays) = (Instant::now() + DYING, Vec::new());
        loop {
            reap_orphans();
            let left = orphans();
            if left.is_empty() || Instant::now() > end {
                return strays;
            }
            for orphan in &left {
                if orphan.group != self.pid && !orphan.is_zombie {
                    strays.push(orphan.name.clone());
                }
                sys::kill(orphan.pid, libc::SIGKILL);
            }
            left.iter().for_each(|orphan| reap(orphan.pid));
        }
    }

    /// Kills the program's whole process group, which it must lead, and waits for its end.
    pub(crate) fn kill_group(&mut self) -> Result<()> {
        sys::kill(-self.pid, libc::SIGKILL);
        while self.wait(Duration::from_secs(1))?.is_none() {}
        self.kill_rest();
        Ok(())
    }
}

/// A process whose parent has ended, so that it is our child now.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) pid: i32,
    pub(crate) name: String,
    group: i32,
    is_zombie: bool,
}

/// Makes this process the parent of its descendants whose own has ended.
fn adopt_orphans() {
    // SAFETY: takes integers and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_usize, 0_usize, 0_usize, 0_usize) };
}

/// Reaps all children that have ended.
pub(crate) fn reap_orphans() {
    // SAFETY: the status is not wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Waits for the end of one child.
pub(crate) fn reap(pid: i32) {
    // SAFETY: the status is not wanted.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Lists the children of this process. While a program runs, it is among them.
pub(crate) fn orphans() -> Vec<Orphan> {
    let me = std::process::id().cast_signed();
    let is_child = |process: &super::others::Process| process.parent == me;
    let children = super::others::processes().into_iter().filter(is_child);
    let orphan = |process: super::others::Process| Orphan {
        pid: process.pid,
        group: process.group,
        is_zombie: process.is_zombie,
        name: fs::read_link(format!("/proc/{}/exe", process.pid))
            .map_or(process.name, |path| path.display().to_string()),
    };
    children.map(orphan).collect()
}
