//! What becomes of the command's children when it is told to end, or is killed?
//!
//! A script is the program of a comparison: it can ignore signals, and start what must not be left
//! behind.

use crate::support::{STAND_IN, Said, overlock, runs, send, wait_until};
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// The command with a child under way.
struct Command {
    folder: TempDir,
    command: Child,
}

impl Command {
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

/// Writes `ready` at once, not piece by piece.
const READY: &str = "echo $$ $! > draft; mv draft ready\n";

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
