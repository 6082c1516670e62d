// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real binary, run as a user would run it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// Asserts the exit code and that standard error has a part of a sentence.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, sentence: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(sentence), "'{sentence}' is not in {self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }

    /// The JSON records of one kind on standard output.
    #[track_caller]
    pub(crate) fn records(&self, kind: &str) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect(line);
        self.stdout.lines().map(parse).filter(|record| record["kind"] == kind).collect()
    }
}

/// The command, not yet started. The C library stands in for the preload library: it is loaded
/// already, so preloading it changes nothing but the environment, which the test programs read.
pub(crate) fn overlock(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overlock"));
    command.args(args).env("OVERLOCK_PRELOAD", c_library()).env_remove("OVERLOCK_LOCK");
    command
}

/// Runs the command to its end.
pub(crate) fn said(args: &[&str]) -> Said {
    overlock(args).output().unwrap().into()
}

fn c_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.map(PathBuf::from).find(|path| path.to_string_lossy().contains("libc.")).unwrap()
}

/// Writes an executable file.
pub(crate) fn program(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Sends Ctrl-C's signal, by the shell's own `kill`.
pub(crate) fn interrupt(pid: u32) {
    let kill = format!("kill -INT {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}
