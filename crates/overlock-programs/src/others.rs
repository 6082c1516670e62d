//! Processes of a program into which nothing can be preloaded: they count nothing, and what the
//! others have counted says nothing about them.
//!
//! The kernel has no list of what a process has started, so `/proc` is read from time to time,
//! often at first. Processes that live shorter than the time between two readings are missed,
//! unless a script names them.

use crate::elf;
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The first time between two readings; the next is a half longer, ...
const FIRST: Duration = Duration::from_millis(2);
const LAST: Duration = Duration::from_secs(2);

/// How many words of scripts are looked at.
const MOST_WORDS: usize = 500;

#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    pub name: String,
    /// Whether it has ended, and waits to be reaped.
    pub is_zombie: bool,
    pub parent: i32,
    pub group: i32,
}

impl Process {
    pub fn of(pid: i32) -> Option<Self> {
        // The name of a process may be no text.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }

    /// Parses `PID (NAME) STATE PARENT GROUP ..`. The name can contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok();
        let (parent, group) = (number()?, number()?);
        Some(Process { pid: pid.parse().ok()?, name: name.into(), is_zombie, parent, group })
    }
}

pub fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?));
    all.collect()
}

#[derive(Debug)]
pub struct Watch {
    looked: Instant,
    pause: Duration,
    known: BTreeSet<PathBuf>,
    /// Why the library can't be in them, by their files.
    found: BTreeMap<PathBuf, String>,
}

impl Watch {
    /// Prepares to watch a program that was not started yet.
    pub fn new(target: &Target) -> Self {
        let mut watch = Watch {
            looked: Instant::now(),
            pause: FIRST,
            // This command starts the program from a copy of itself.
            known: fs::read_link("/proc/self/exe").into_iter().collect(),
            found: BTreeMap::new(),
        };
        named(target).into_iter().for_each(|path| watch.judge(path));
        watch
    }

    /// Looks in a thread of its own, until the end.
    pub fn start(target: &Target) -> Watching {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut watch = Watch::new(target);
        let looking = thread::spawn(move || {
            while stopped.recv_timeout(watch.pause()) == Err(RecvTimeoutError::Timeout) {
                watch.look();
            }
            watch
        });
        Watching { stop, looking }
    }

    pub fn pause(&self) -> Duration {
        self.pause.saturating_sub(self.looked.elapsed()).max(Duration::from_millis(1))
    }

    pub fn look(&mut self) {
        if self.looked.elapsed() < self.pause {
            return;
        }
        let (all, mut family) = (processes(), BTreeSet::from([std::process::id().cast_signed()]));
        // Parents have smaller numbers than their children, mostly: two passes are enough.
        for process in all.iter().chain(&all) {
            if family.contains(&process.parent) && family.insert(process.pid) {
                self.meet(process.pid);
            }
        }
        self.looked = Instant::now();
        self.pause = (self.pause + self.pause / 2).min(LAST);
    }

    fn meet(&mut self, pid: i32) {
        if let Ok(path) = fs::read_link(format!("/proc/{pid}/exe")) {
            self.judge(path);
        }
    }

    fn judge(&mut self, path: PathBuf) {
        if !self.known.insert(path.clone()) {
            return;
        }
        if let Err(why) = elf::refuse(&path) {
            self.found.insert(path, format!("{why:#}"));
        }
    }

    /// Returns why processes have counted nothing, a sentence for each file.
    pub fn reasons(self) -> Vec<String> {
        self.found.into_values().collect()
    }
}

/// Returns the programs that a script names, or the command of `sh -c`, or a script that one of
/// them names: they may live for too short a time to be seen.
fn named(target: &Target) -> Vec<PathBuf> {
    let args = target.args.iter().map(|arg| arg.to_string_lossy().into_owned());
    let (mut texts, mut scripts) = (args.collect::<Vec<_>>(), BTreeSet::new());
    let (mut programs, mut words_left) = (Vec::new(), MOST_WORDS);
    let mut read = |path: &Path| {
        let is_new = scripts.insert(path.to_owned());
        let file = if is_new { fs::read(path).unwrap_or_default() } else { Vec::new() };
        file.starts_with(b"#!").then(|| String::from_utf8_lossy(&file).into_owned())
    };
    texts.extend(read(&target.path));
    while let Some(text) = texts.pop() {
        let ends = |c: char| c.is_whitespace() || "'\"`;&|()<>".contains(c);
        let words: BTreeSet<&str> = text.split(ends).filter(|word| !word.is_empty()).collect();
        for word in words {
            if words_left == 0 {
                return programs;
            }
            words_left -= 1;
            let Ok(path) = elf::find(word) else { continue };
            match is_program(&path) {
                true => programs.push(path),
                false => texts.extend(read(&path)),
            }
        }
    }
    programs
}

fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

#[derive(Debug)]
pub struct Watching {
    stop: mpsc::Sender<()>,
    looking: thread::JoinHandle<Watch>,
}

impl Watching {
    pub fn end(self) -> Vec<String> {
        drop(self.stop);
        self.looking.join().map(Watch::reasons).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_is_a_name() {
        let process = Process::parse("7 (a) b (c) S 5 6 6 0").unwrap();
        assert_eq!((process.pid, process.name.as_str()), (7, "a) b (c"));
        assert_eq!((process.parent, process.group, process.is_zombie), (5, 6, false));
        let me = std::process::id().cast_signed();
        assert!(processes().iter().any(|process| process.pid == me));
    }
}
