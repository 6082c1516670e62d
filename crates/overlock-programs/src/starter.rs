//! Starting a program from a process that is smaller than it.
//!
//! The kernel counts the memory of the process that called `exec` as that of the program (`maxrss`
//! of getrusage(2)), and this command has more than many a program. So it starts itself once more
//! as a *starter*, which has next to nothing of its own. On a word from the command the starter
//! makes the program's process, as a child of the command's (`CLONE_PARENT`), and ends.
//!
//! ```text
//!   command ── starts ──▶ starter
//!      │ ◀─ child of the command, by CLONE_PARENT ─┐
//!      │                     └── clone ──▶ program's process ── exec ──▶ program
//!      ├─ "go" ───────────────▶                 │
//!      ◀─ number of the process ─               │
//!      ◀─ error of exec, or the end of the pipe ┘
//! ```

use anyhow::{Context, Result, bail};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The first argument of a starter.
const STARTER: &str = "__start-program";

/// What a starter and the process that it made write: a kind, and a number.
const MADE: i32 = 1;
const FAILED: i32 = 2;

#[derive(Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub variables: Vec<(OsString, Option<OsString>)>,
    /// Whether it leads a process group of its own, and dies with this process.
    pub own_group: bool,
    pub inherit: Option<RawFd>,
    /// Standard input, output and error, if they are not ours.
    pub streams: [Option<File>; 3],
}

impl Launch {
    /// A program that inherits all of ours.
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        let (variables, streams) = (Vec::new(), [None, None, None]);
        Launch { program, args, variables, own_group: false, inherit: None, streams }
    }

    pub(crate) fn start(self) -> Result<(i32, Instant)> {
        let name = self.program.display().to_string();
        let (mut told, tell) = io::pipe()?;
        let (wait, mut go) = io::pipe()?;
        let mut starter = self.starter(&tell, &wait).context("can't start a process")?;
        drop((tell, wait));
        let started = Instant::now();
        let gone = go.write_all(b"!");
        let answer = answer(&mut told);
        let ended = starter.wait()?;
        match (gone, answer?) {
            (Ok(()), Answer { made: Some(pid), failed: None }) => Ok((pid, started)),
            (_, Answer { made, failed: Some(error) }) => {
                // It has ended by now, or is about to.
                if let Some(pid) = made {
                    reap(pid);
                }
                let error = io::Error::from_raw_os_error(error);
                Err(error).with_context(|| format!("can't start {name}"))
            }
            _ => bail!("can't start {name}: the process that should have started it {ended}"),
        }
    }

    fn starter(self, tell: &PipeWriter, wait: &PipeReader) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        let [tell, wait] = [tell.as_raw_fd(), wait.as_raw_fd()];
        let parent = if self.own_group { std::process::id().cast_signed() } else { 0 };
        let numbers = [tell, wait, self.inherit.unwrap_or(-1), parent];
        command.arg0("overlock").arg(STARTER).args(numbers.map(|number| number.to_string()));
        command.arg(self.variables.len().to_string());
        for (name, value) in &self.variables {
            // Not as variables of the starter, which would load the library.
            let mut text = name.clone();
            if let Some(value) = value {
                text.push("=");
                text.push(value);
            }
            command.arg(text);
        }
        command.arg(&self.program).args(&self.args);
        let [input, output, error] = self.streams;
        let stream = |file: Option<File>| file.map_or_else(Stdio::inherit, Stdio::from);
        command.stdin(stream(input)).stdout(stream(output)).stderr(stream(error));
        let inherited = [Some(tell), Some(wait), self.inherit];
        // SAFETY: `keep_open` makes only async-signal-safe calls.
        unsafe {
            command.pre_exec(move || inherited.iter().flatten().try_for_each(|fd| keep_open(*fd)))
        };
        command.spawn()
    }
}

/// Lets a descriptor survive `exec`.
fn keep_open(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes integers and touches no memory.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[derive(Debug, Default)]
struct Answer {
    made: Option<i32>,
    failed: Option<i32>,
}

/// Reads all that is told, until the program runs.
fn answer(told: &mut PipeReader) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    told.read_to_end(&mut bytes)?;
    let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut answer = Answer::default();
    for message in bytes.chunks_exact(8) {
        let (kind, value) = message.split_at(4);
        match number(kind) {
            MADE => answer.made = Some(number(value)),
            _ => answer.failed = Some(number(value)),
        }
    }
    Ok(answer)
}

pub fn obey_as_starter() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new(STARTER)) {
        let done = starter(args);
        // Nothing reads its words.
        std::process::exit(i32::from(done.is_none()));
    }
}

/// The starter's whole life. Returns nothing if it was not started by us.
fn starter(mut args: impl Iterator<Item = OsString>) -> Option<()> {
    let mut number = || args.next()?.to_str()?.parse::<i32>().ok();
    let [tell, wait, inherit, parent, variables] =
        [number()?, number()?, number()?, number()?, number()?];
    for _ in 0..variables {
        let bytes = args.next()?.into_vec();
        let mut parts = bytes.splitn(2, |byte| *byte == b'=');
        let name = OsString::from_vec(parts.next()?.to_vec());
        match parts.next() {
            // SAFETY: a starter has one thread.
            Some(value) => unsafe { std::env::set_var(name, OsStr::from_bytes(value)) },
            // SAFETY: as above.
            None => unsafe { std::env::remove_var(name) },
        }
    }
    let words: Option<Vec<CString>> = args.map(|arg| CString::new(arg.into_vec()).ok()).collect();
    let words = words?;
    let argv: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: the command has opened it for us.
    let mut go = unsafe { File::from_raw_fd(wait) };
    go.read_exact(&mut [0]).ok()?;
    drop(go);
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: as fork(2), in a process of one thread; the child only makes the calls below.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid != 0 {
        let pid = i32::try_from(pid).unwrap_or(-1);
        let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let message = if pid > 0 { (MADE, pid) } else { (FAILED, error) };
        send(tell, message);
        return Some(());
    }
    // SAFETY: each takes integers, or the C strings above, which end in a null pointer.
    unsafe {
        if parent != 0 {
            libc::setpgid(0, 0);
            if crate::die_with(parent).is_err() {
                libc::_exit(127);
            }
        }
        libc::fcntl(tell, libc::F_SETFD, libc::FD_CLOEXEC);
        if inherit >= 0 {
            libc::fcntl(inherit, libc::F_SETFD, 0);
        }
        // The Rust runtime ignores it.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execv(argv[0], argv.as_ptr());
    }
    send(tell, (FAILED, io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    // SAFETY: ends this copy of the starter.
    unsafe { libc::_exit(127) }
}

fn send(tell: RawFd, (kind, value): (i32, i32)) {
    let bytes = [kind.to_le_bytes(), value.to_le_bytes()].concat();
    // SAFETY: the bytes are readable. If nobody reads, there is nobody to tell.
    unsafe { libc::write(tell, bytes.as_ptr().cast(), bytes.len()) };
}

pub(crate) fn reap(pid: i32) {
    // SAFETY: the status is not wanted.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}
