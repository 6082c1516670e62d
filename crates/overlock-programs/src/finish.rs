//! Waiting for a child to its end, while reading what it says.

use crate::child::{Child, Exit, GRACE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often to look whether the caller has cancelled: its signal can reach another thread.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub enum Finished {
    /// It has ended by itself, or by a signal that it got.
    Exited { exit: Exit, stdout: Vec<u8>, stderr: Vec<u8> },
    /// It took longer than its limit, and was ended.
    TooLong,
    /// The caller cancelled, and it was ended.
    Cancelled,
}

/// Starts `command` and waits for its end, for `limit` at most and until `cancelled` is set; gives
/// it [`GRACE`] then. Reads what is piped as it comes, so a child that says much does not hang.
pub fn finish(
    command: &mut Command,
    limit: Option<Duration>,
    cancelled: &AtomicBool,
) -> io::Result<Finished> {
    let mut child = Child::spawn(command)?;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let (mut stdout, mut stderr) =
        (Pipe::new(child.stdout.take())?, Pipe::new(child.stderr.take())?);
    while child.exit.is_none() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if cancelled.load(Relaxed) || left.is_some_and(|left| left.is_zero()) {
            child.end(GRACE)?;
            return Ok(if cancelled.load(Relaxed) {
                Finished::Cancelled
            } else {
                Finished::TooLong
            });
        }
        await_any(&child, &stdout, &stderr, left.map_or(LOOK, |left| left.min(LOOK)))?;
        // What it said before its end is in the pipes by the time its end is seen.
        child.wait(Duration::ZERO)?;
        stdout.read()?;
        stderr.read()?;
    }
    let exit = child.wait(Duration::ZERO)?.expect("the loop ends with the child");
    if cancelled.load(Relaxed) && !exit.status.success() {
        return Ok(Finished::Cancelled);
    }
    Ok(Finished::Exited { exit, stdout: stdout.said, stderr: stderr.said })
}

/// Sleeps until the child has ended or said something, for `limit` at most.
fn await_any<O: AsFd, E: AsFd>(
    child: &Child,
    stdout: &Pipe<O>,
    stderr: &Pipe<E>,
    limit: Duration,
) -> io::Result<()> {
    let ends = [stdout.end.as_ref().map(AsFd::as_fd), stderr.end.as_ref().map(AsFd::as_fd)];
    let mut fds = vec![PollFd::new(&child.pidfd, PollFlags::IN)];
    fds.extend(ends.iter().flatten().map(|end| PollFd::from_borrowed_fd(*end, PollFlags::IN)));
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The reading end of a pipe, until it is closed, and what has come.
#[derive(Debug)]
struct Pipe<R> {
    end: Option<R>,
    said: Vec<u8>,
}

impl<R: Read + AsFd> Pipe<R> {
    fn new(end: Option<R>) -> io::Result<Self> {
        if let Some(end) = &end {
            ioctl_fionbio(end, true)?;
        }
        Ok(Pipe { end, said: Vec::new() })
    }

    /// Reads what is there. A process that the child has left behind can keep the pipe open, so its
    /// end is not waited for.
    fn read(&mut self) -> io::Result<()> {
        let Some(end) = &mut self.end else { return Ok(()) };
        match end.read_to_end(&mut self.said) {
            Ok(_) => self.end = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
