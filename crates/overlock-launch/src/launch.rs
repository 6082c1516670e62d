// SPDX-License-Identifier: MIT OR Apache-2.0
//! A supervised program: started, waited for to the microsecond, measured and, if need be, ended.
//!
//! The wait is on a pidfd, so it ends when the program does and not at the next poll; `wait4` then
//! returns what the program used. No thread of ours could disturb it.
//!
//! What the program has started becomes our child when its parent ends, wherever it has put itself
//! (`PR_SET_CHILD_SUBREAPER`), so a daemon is noticed.

use crate::others::{Process, processes};
use crate::start::{Plan, reap};
use anyhow::{Context, Result};
use overlock_process::{Usage, interrupt::GroupWatch};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long killed processes may take to end.
const DYING: Duration = Duration::from_secs(10);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
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

/// A program that has been started.
#[derive(Debug)]
pub struct Running {
    pid: i32,
    pidfd: OwnedFd,
    started: Instant,
    /// The time from its start to its end.
    pub wall: Duration,
    /// What it, and the children it waited for, used.
    pub usage: Option<Usage>,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// If the system does not start it, or offers no pidfd (Linux 5.3).
    pub fn start(plan: Plan) -> Result<Self> {
        adopt_orphans();
        let (pid, started) = plan.start()?;
        let pidfd = pidfd_open(pid).context("can't watch a process (needs Linux 5.3)")?;
        Ok(Running { pid, pidfd, started, wall: Duration::ZERO, usage: None })
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for the end, at most for `limit` or until a signal comes; returns nothing if it still
    /// runs.
    ///
    /// # Errors
    /// If the kernel does not tell how it ended.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Ended>> {
        if !wait_readable(&self.pidfd, limit) {
            return Ok(None);
        }
        self.wall = self.started.elapsed();
        let (status, usage) = wait4(self.pid).context("can't learn how a program ended")?;
        self.usage = Some(usage);
        Ok(Some(if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Code(libc::WEXITSTATUS(status))
        }))
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: i32) {
        kill(self.pid, signal);
    }

    /// Makes a second Ctrl-C kill the process group that the program leads.
    pub fn watch_group(&self) -> GroupWatch {
        GroupWatch::new(self.pid)
    }

    /// Kills all that is left of the program, which led a process group and has ended. Returns the
    /// names of processes that had left the group, as daemons do.
    pub fn kill_rest(&self) -> Vec<String> {
        kill(-self.pid, libc::SIGKILL);
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
                kill(orphan.pid, libc::SIGKILL);
            }
            left.iter().for_each(|orphan| reap(orphan.pid));
        }
    }

    /// Kills the program's whole process group, which it must lead, and waits for its end.
    pub fn kill_group(&mut self) -> Result<()> {
        kill(-self.pid, libc::SIGKILL);
        while self.wait(Duration::from_secs(1))?.is_none() {}
        self.kill_rest();
        Ok(())
    }
}

/// A process whose parent has ended, so that it is our child now.
#[derive(Debug)]
pub struct Orphan {
    /// Its number.
    pub pid: i32,
    /// Its file.
    pub name: String,
    group: i32,
    is_zombie: bool,
}

impl Orphan {
    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        kill(self.pid, signal);
    }
}

/// Makes this process the parent of its descendants whose own has ended.
fn adopt_orphans() {
    // SAFETY: takes integers and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_usize, 0_usize, 0_usize, 0_usize) };
}

/// Reaps all children that have ended.
pub fn reap_orphans() {
    // SAFETY: the status is not wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
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

/// Opens a descriptor that becomes readable when process `pid` ends.
fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call has just made this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reaps the child `pid`, waiting if needed; returns its wait status and what it used.
fn wait4(pid: i32) -> io::Result<(i32, Usage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the right type.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            // SAFETY: all-zero bytes are a valid rusage, and the call has filled it in.
            return Ok((status, unsafe { usage.assume_init() }.into()));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Sends a signal to a process, or to a process group if `pid` is negative.
///
/// It is no error if the process has already gone.
fn kill(pid: i32, signal: i32) {
    // SAFETY: takes two integers and touches no memory.
    unsafe { libc::kill(pid, signal) };
}

/// Returns the usual name of a signal.
fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).unwrap_or("unnamed").to_owned()
}

/// Waits until `fd` is readable; returns false if `limit` passed or a signal came first.
pub(crate) fn wait_readable(fd: &OwnedFd, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `poll` is one valid entry, and the count given is one.
    unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
}
