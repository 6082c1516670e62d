// SPDX-License-Identifier: MIT OR Apache-2.0
//! A supervised program: started, waited for to the microsecond, measured and, if need be, ended.
//!
//! The wait is on a pidfd, so it ends when the program does and not at the next poll; `wait4` then
//! returns what the program used. No thread of ours could disturb it.

use crate::interrupt::GroupWatch;
use crate::sys::{self, Usage};
use anyhow::{Context, Result};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

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
    /// Starts `command`.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let started = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("can't start {}", command.get_program().display()))?;
        let pid = i32::try_from(child.id()).context("a process id is out of range")?;
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

    /// Kills what is left of the process group that the program led.
    pub(crate) fn kill_rest(&self) {
        sys::kill(-self.pid, libc::SIGKILL);
    }

    /// Kills the program's whole process group, which it must lead, and waits for its end.
    pub(crate) fn kill_group(&mut self) -> Result<()> {
        self.kill_rest();
        while self.wait(Duration::from_secs(1))?.is_none() {}
        Ok(())
    }
}
