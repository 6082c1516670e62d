//! Standard input, the same for each run of a comparison.
//!
//! A file is opened anew for each run. A pipe can be read once, so it is read to its end before the
//! first run, into a temporary file. What a person types can't be had twice: at a terminal, each
//! run reads an empty file, and the user is told.

use crate::interrupt;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

/// After this time of reading, the user learns what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often to look whether Ctrl-C has come.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(Debug)]
pub enum Input {
    Nothing,
    File(OwnedFd, u64),
}

impl Input {
    /// Takes over the command's own standard input; `note` tells the user if that takes long, or if
    /// each run gets none of it.
    pub fn take(note: &dyn Fn(&str)) -> Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            note(
                "standard input is a terminal, so each run reads an empty file instead; if the \
                 program needs input, give it a file: < FILE",
            );
            return Ok(Input::Nothing);
        }
        let own = stdin.as_fd().try_clone_to_owned();
        // It may be closed.
        let Ok(own) = own else { return Ok(Input::Nothing) };
        let mut file = File::from(own);
        let kind = file.metadata().context("can't tell what standard input is")?.file_type();
        if kind.is_fifo() || kind.is_socket() {
            let spool = spool(file, note).context("can't keep standard input for each run")?;
            return Ok(Input::File(spool.into(), 0));
        }
        let at = if kind.is_file() { file.stream_position()? } else { 0 };
        Ok(Input::File(file.into(), at))
    }

    pub fn open(&self) -> Result<File> {
        let path = match self {
            Input::Nothing => "/dev/null".to_owned(),
            Input::File(file, _) => format!("/proc/self/fd/{}", file.as_raw_fd()),
        };
        let mut file = File::open(&path).context("can't open standard input again for a run")?;
        if let Input::File(_, at @ 1..) = self {
            file.seek(SeekFrom::Start(*at))?;
        }
        Ok(file)
    }
}

fn spool(mut pipe: File, note: &dyn Fn(&str)) -> Result<File> {
    let mut spool = tempfile::tempfile()?;
    let (started, mut is_told) = (Instant::now(), false);
    let mut buffer = vec![0; 1 << 16];
    let fd = pipe.as_fd().try_clone_to_owned()?;
    loop {
        if interrupt::seen() {
            bail!("interrupted");
        }
        if !is_told && started.elapsed() > PATIENCE {
            is_told = true;
            note(
                "reading standard input to its end, to give each run the same; if the \
                 program reads none, start with </dev/null",
            );
        }
        // A signal may come first.
        if !poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&LOOK)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => spool.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(spool)
}
