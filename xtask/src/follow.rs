//! `cargo xtask follow`: how much of a lock does a person read who follows one call in a debugger?
//!
//! gdb steps through an unoptimised program in which a thread asks for a lock that another thread
//! holds, until it sleeps: outside of the queue of a `Hybrid`, or as the queue head of a `Queued`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Write, stderr};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::peers::{ours, package};
use crate::{root, target};

/// The most functions and files of each lock: 45 functions in 12 files can be read in one sitting.
/// Lower them when they are fewer.
const MOST: [(&str, usize, usize); 2] = [("Hybrid", 44, 12), ("Queued", 103, 20)];

const STEPS: &str = include_str!("follow.py");

/// The program; `KIND` is the lock's.
const PROGRAM: &str = "
use overlock::{RawLock, platform::Threads};
static LOCK: overlock::KIND<Threads> = overlock::KIND::new();
#[unsafe(no_mangle)]
extern \"C\" fn begins() {}
fn main() {
    LOCK.lock();
    std::thread::spawn(|| { begins(); LOCK.lock(); }).join().unwrap();
}
";

/// The functions that a call enters, and the files that they stand in.
#[derive(Debug, Default)]
struct Way {
    functions: BTreeSet<(String, String)>,
    files: BTreeSet<String>,
}

impl Way {
    /// Reads what gdb has printed. Returns `None` if the thread has not slept.
    fn read(said: &str) -> Option<Self> {
        let mut way = Self::default();
        for line in said.lines() {
            if let Some((file, function)) =
                line.strip_prefix("entered ").and_then(|rest| rest.split_once(' '))
            {
                way.functions.insert((file.to_owned(), function.to_owned()));
                way.files.insert(file.to_owned());
            }
        }
        said.lines().any(|line| line.starts_with("asleep")).then_some(way)
    }

    fn is_within(&self, functions: usize, files: usize) -> bool {
        self.functions.len() <= functions && self.files.len() <= files
    }
}

/// Prints the way of each lock, and returns whether all of them are short enough. Also returns true
/// if it had to skip.
pub(crate) fn check() -> Result<bool> {
    let mut sound = true;
    for (lock, functions, files) in MOST {
        let said = match follow(lock)? {
            Ok(said) => said,
            Err(why) => {
                writeln!(stderr(), "skipped: the way of lock() to the futex: {why}")?;
                return Ok(true);
            }
        };
        println!("{lock}::lock()\n{said}");
        let Some(way) = Way::read(&said) else {
            println!("{lock}: the thread has not slept");
            return Ok(false);
        };
        let (seen, of) = (way.functions.len(), way.files.len());
        println!("{lock}: {seen} functions (at most {functions}) in {of} files (at most {files})");
        sound &= way.is_within(functions, files);
    }
    Ok(sound)
}

/// Builds the program with this lock, and returns what the steps print, or why gdb can't step.
fn follow(lock: &str) -> Result<Result<String, &'static str>> {
    if Command::new("gdb").arg("--version").output().is_err() {
        return Ok(Err("there is no gdb (apt-get install gdb)"));
    }
    let folder = target()?.join("follow").join(lock);
    package(
        &folder,
        &format!("overlock = {{ {}, features = [\"threads\"] }}\n", ours("overlock")),
    )?;
    fs::remove_file(folder.join("src/lib.rs"))?;
    fs::write(folder.join("src/main.rs"), PROGRAM.replace("KIND", lock))?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline"]).current_dir(&folder);
    let built = target()?.join("follow/target");
    ensure!(cargo.env("CARGO_TARGET_DIR", &built).status()?.success(), "{lock} is not built");
    let steps = folder.join("steps.py");
    fs::write(&steps, STEPS)?;
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-x"]).arg(steps).arg(built.join("debug").join(lock));
    let ended = gdb.env("SOURCES", root().join("crates/overlock/src/")).output()?;
    let (said, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if errors.contains("Operation not permitted") || errors.contains("Python scripting") {
        return Ok(Err("gdb may not trace here, or has no Python"));
    }
    let wanted = |line: &&str| line.starts_with("entered ") || line.starts_with("asleep ");
    Ok(Ok(said.lines().filter(wanted).map(|line| format!("{line}\n")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_in_few_files() {
        assert!(check().unwrap(), "the way of a call has become longer: cargo xtask follow");
    }

    #[test]
    fn a_longer_way_is_noticed() {
        let said = "entered a.rs a\nentered b.rs b\nentered b.rs c\nasleep after 1 changes\n";
        let way = Way::read(said).unwrap();
        assert!(way.is_within(3, 2));
        assert!(!way.is_within(2, 2) && !way.is_within(3, 1));
        assert!(Way::read("entered a.rs a\n").is_none());
    }
}
