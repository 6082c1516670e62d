// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the command's children when it is told to end, or is killed?
//!
//! A script stands in for QEMU, or is the program of a comparison: it can ignore signals, and start
//! what must not be left behind.

use crate::support::{OVERLOCK, STAND_IN, Said, overlock, program, send, wait_until};
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// The command with a child under way.
struct Command {
    folder: TempDir,
    command: Child,
}

impl Command {
    /// Starts `bench --in tcg` with a script as its machine, and waits until the script says that
    /// it is ready by writing the file `ready`: the numbers of processes.
    fn boot(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let asked = "[ \"$1\" = --version ] && exit";
        let script = format!("#!/bin/sh\n{asked}\ncd '{}'\n{script}", folder.path().display());
        program(folder.path(), "qemu-system-x86_64", script.as_bytes(), 0o755);
        let path = std::env::var("PATH").unwrap();
        let mut command = overlock(&["bench", "--in", "tcg", "--cpus", "1"]);
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        // No kernel is started, so any file will do.
        command.env("OVERLOCK_IMAGE", OVERLOCK);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| folder.path().join("ready").exists());
        Command { folder, command }
    }

    /// Starts `compare` with a script as its program, and waits until it is ready.
    fn compare(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("cd '{}'\n{script}", folder.path().display());
        let mut command = overlock(&["compare", "--", "sh", "-c", &script]);
        command.env("OVERLOCK_PRELOAD", &*STAND_IN);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| folder.path().join("ready").exists());
        Command { folder, command }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn send(&self, signal: &str) {
        send(signal, self.command.id());
    }

    /// Waits for the end of the command and of the processes that the script has named.
    fn ends(self) -> Said {
        let ready = std::fs::read_to_string(self.path().join("ready")).unwrap();
        let said = self.command.wait_with_output().unwrap().into();
        wait_until(|| !ready.split_whitespace().any(runs));
        said
    }
}

/// Whether a process runs, as opposed to one that waits to be reaped by whoever inherited it.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// Writes `ready` at once, not piece by piece.
const READY: &str = "echo $$ $! > draft; mv draft ready\n";

#[test]
fn a_child_is_asked_to_end_first() {
    let script = "trap 'touch asked; exit' TERM\nsleep 1000 &\n".to_owned() + READY + "wait";
    let command = Command::boot(&script);
    let asked = command.path().join("asked");
    command.send("TERM");
    wait_until(|| asked.exists());
    command.ends().ends(130, "so there are no results");
}

#[test]
fn a_second_signal_kills_a_child_that_ignores_the_first_and_what_it_has_started() {
    // The request to end is seen, and not obeyed; what was started does not even see it.
    let script = "(trap '' TERM; exec sleep 1000) &\ntrap 'touch asked' TERM\n".to_owned() + READY;
    let command = Command::boot(&(script + "while :; do wait; done"));
    command.send("TERM");
    wait_until(|| command.path().join("asked").exists());
    command.send("TERM");
    assert_eq!(command.ends().code, Some(130));
}

#[test]
fn a_child_dies_with_a_command_that_is_killed() {
    let command = Command::boot(&(READY.to_owned() + "trap '' TERM INT HUP\nexec sleep 1000"));
    command.send("KILL");
    assert_eq!(command.ends().code, None);
}

#[test]
fn a_compared_program_is_asked_to_end_first_and_then_killed_with_what_it_has_started() {
    let script = "(trap '' TERM; exec sleep 1000) &\ntrap 'touch asked' TERM\n".to_owned() + READY;
    let command = Command::compare(&(script + "while :; do wait; done"));
    command.send("TERM");
    wait_until(|| command.path().join("asked").exists());
    command.send("TERM");
    assert_eq!(command.ends().code, Some(130));
}

#[test]
fn a_compared_program_dies_with_a_command_that_is_killed() {
    let command = Command::compare(&(READY.to_owned() + "trap '' TERM INT HUP\nexec sleep 1000"));
    command.send("KILL");
    assert_eq!(command.ends().code, None);
}
