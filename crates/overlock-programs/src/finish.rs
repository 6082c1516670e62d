//! Waiting for a child to its end, and reading what it has said.

use crate::child::{Child, Exit, GRACE};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often to look whether the caller has cancelled: its signal can reach another thread.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub enum Finished {
    /// It has ended by itself, or by a signal that it got.
    Exited { exit: Exit, stdout: Vec<u8> },
    /// It took longer than its limit, and was ended.
    TooLong,
    /// The caller cancelled, and it was ended.
    Cancelled,
}

/// Starts `command` and waits for its end, for `limit` at most and until `cancelled` is set; gives
/// it [`GRACE`] then. Its standard output goes to a file in memory: a child that
/// says much does not hang, and a full disk does not matter.
pub fn finish(
    command: &mut Command,
    limit: Option<Duration>,
    cancelled: &AtomicBool,
) -> io::Result<Finished> {
    let mut said = File::from(memfd_create("a program's output", MemfdFlags::CLOEXEC)?);
    let mut child = Child::spawn(command.stdout(said.try_clone()?))?;
    let exit = match end_within(&mut child, limit, cancelled)? {
        Some(exit) if exit.status.success() || !cancelled.load(Relaxed) => exit,
        ended => {
            ended.map_or_else(|| child.end(GRACE), Ok)?;
            let is_cancelled = cancelled.load(Relaxed);
            return Ok(if is_cancelled { Finished::Cancelled } else { Finished::TooLong });
        }
    };
    Ok(Finished::Exited { exit, stdout: read(&mut said)? })
}

/// Waits for the end; returns nothing if the limit has passed, or the caller has cancelled, before.
pub(crate) fn end_within(
    child: &mut Child,
    limit: Option<Duration>,
    cancelled: &AtomicBool,
) -> io::Result<Option<Exit>> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
        if let Some(exit) = child.wait(left.min(LOOK))? {
            return Ok(Some(exit));
        }
        if cancelled.load(Relaxed) || deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(None);
        }
    }
}

/// Reads all that a process has written to a file.
pub(crate) fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
