//! Child processes, which never outlive their parent and never keep it waiting.
//!
//! | what happens | what becomes of a [`Child`], and of what it has started |
//! |---|---|
//! | it ends by itself | the rest of its process group is killed |
//! | the parent is done with it: [`Child::end`] | its group gets SIGTERM, and after a grace SIGKILL |
//! | the parent drops it, or fails | its group gets SIGKILL |
//! | the first Ctrl-C or SIGTERM: [`end_all`](crate::end_all) in the handler | its group gets SIGTERM; the parent ends it |
//! | the second one: [`kill_all`](crate::kill_all) | its group gets SIGKILL, at once |
//! | the parent dies without a word, as by SIGKILL | the child gets SIGKILL; what it has started does not |
//!
//! A child leads a process group of its own, so a terminal's Ctrl-C does not reach it: its parent
//! decides how it ends. The kernel reports its end on a pidfd, so a parent sleeps until then.
//!
//! A program that belongs to the user ([`Bond::Free`]), as under `time` or `nohup`, is only waited
//! for: it stays in the terminal's group, gets the terminal's signals, and goes on without us.
//!
//! # Its parent's death
//! The child asks for a signal at its parent's death (`PR_SET_PDEATHSIG`) between fork and exec.
//! The parent can have died before:
//! ```text
//!   parent:  own = getpid() ── fork ── dies                        dies
//!   child:                      └───────── prctl ── getppid() == own ┘ └► SIGKILL
//!                                                    └ no: too late for the signal: give up
//! ```
//! If the parent dies before `prctl`, the child has another parent by then, and sees that; if it
//! dies after it, the signal comes. The kernel sends it when the *thread* that forked ends: a child
//! must be started by a thread that outlives it. A program that gains privileges by being executed
//! (set-user-ID, file capabilities) loses the signal.

use crate::groups::Registered;
use crate::usage::CpuUsage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long a child may take to end after SIGTERM: enough for QEMU to close its images. A user who
/// is in a hurry presses Ctrl-C again.
pub const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Its exit code, or the signal that ended it.
    pub status: ExitStatus,
    /// What it, and the children it waited for, used.
    pub usage: CpuUsage,
    /// The time from its start to its end, as the parent saw it.
    pub wall: Duration,
}

/// What ends a child that was started by other means than [`Child::spawn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It leads a process group and dies with its parent: all of the table above.
    Group,
    /// Nothing but itself, and the user.
    Free,
}

#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    /// Its pipes, for those of its standard streams that are piped.
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    started: Instant,
    /// Absent if the child is free.
    registered: Option<Registered>,
    exit: Option<Exit>,
}

impl Child {
    /// Starts `command`. The calling thread must outlive the child.
    ///
    /// # Errors
    /// If the system does not start it, or offers no pidfd (Linux 5.3).
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let own = getpid().as_raw_nonzero().get();
        // SAFETY: `die_with` makes two system calls and touches no memory that another thread of
        // the parent could have left half written.
        unsafe { command.process_group(0).pre_exec(move || die_with(own)) };
        let started = Instant::now();
        let mut child = command.spawn()?;
        let mut adopted = Self::adopt(child.id().cast_signed(), started, Bond::Group)?;
        (adopted.stdin, adopted.stdout, adopted.stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(adopted)
    }

    /// Takes over a child of this process that was started at some time. One that is to be a
    /// [`Bond::Group`] leads its group already, and called [`die_with`].
    ///
    /// # Errors
    /// If there is no such child, or the system offers no pidfd (Linux 5.3): then it was killed.
    pub fn adopt(pid: i32, started: Instant, bond: Bond) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        let registered = (bond == Bond::Group).then(|| Registered::new(pid));
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = kill_process(pid, Signal::KILL);
                registered.iter().for_each(Registered::forget);
                let _ = waitpid(Some(pid), WaitOptions::empty());
                return Err(error.into());
            }
        };
        let (stdin, stdout, stderr) = (None, None, None);
        Ok(Child { pid, pidfd, stdin, stdout, stderr, started, registered, exit: None })
    }

    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for the end, but no longer than `limit`; returns nothing if it still runs then.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Exit>> {
        if self.exit.is_none() {
            if !self.has_ended_after(limit)? {
                return Ok(None);
            }
            self.exit = Some(self.reap()?);
        }
        Ok(self.exit)
    }

    /// Kills the child and all that it has started, if it still runs; one that is free, alone.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Sends a signal to the child and all that it has started, if it still runs; to one that is
    /// free, alone.
    pub fn signal(&self, signal: i32) {
        if self.exit.is_none() {
            let to = if self.registered.is_some() { -self.id() } else { self.id() };
            // Until it is reaped, its number is that of no other process or group. An error means
            // that all of them have gone, or gained privileges.
            // SAFETY: takes two integers and touches no memory.
            unsafe { libc::kill(to, signal) };
        }
    }

    /// Ends it with SIGTERM, or with SIGKILL if it takes longer than `grace`.
    pub fn end(&mut self, grace: Duration) -> io::Result<Exit> {
        self.signal(libc::SIGTERM);
        if let Some(exit) = self.wait(grace)? {
            return Ok(exit);
        }
        self.kill();
        let exit = self.reap()?;
        self.exit = Some(exit);
        Ok(exit)
    }

    fn has_ended_after(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], left.as_ref()) {
                Ok(ended) => return Ok(ended > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the end, however long that takes; kills the rest of the group.
    fn reap(&mut self) -> io::Result<Exit> {
        self.has_ended_after(Duration::MAX)?;
        let wall = self.started.elapsed();
        if let Some(registered) = &self.registered {
            // The child has ended and is not reaped yet, so its number still belongs to its group.
            self.kill();
            registered.forget();
        }
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to writable memory of the right type.
        let reaped = unsafe { libc::wait4(self.id(), &raw mut status, 0, usage.as_mut_ptr()) };
        if reaped != self.id() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all-zero bytes are a valid rusage, and the call has filled it in.
        let usage = unsafe { usage.assume_init() }.into();
        Ok(Exit { status: ExitStatus::from_raw(status), usage, wall })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit.is_none() && self.registered.is_some() {
            self.kill();
            // If the kernel does not tell how it ended, nobody has asked.
            let _ = self.reap();
        }
    }
}

/// Makes this process end with its parent, which must be `parent`: for a new process before it
/// executes a program.
pub fn die_with(parent: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Pid::from_raw(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
}
