//! The real binary, run as a user would run it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[path = "../../../../crates/overlock-cli/tests/cli/said.rs"]
mod heard;
pub(crate) use heard::{Said, skip};

/// Makes the command without starting it.
pub(crate) fn overlock(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overlock-kernels"));
    command.args(args).env_remove("COLUMNS");
    // SAFETY: `signal` is safe to call between fork and exec.
    unsafe { command.pre_exec(heard::heed_signals) };
    command
}

/// Runs the command to its end.
pub(crate) fn said(args: &[&str]) -> Said {
    overlock(args).output().unwrap().into()
}

/// Asserts that `overlock reference` explains all names in the records, among them these.
#[track_caller]
pub(crate) fn knows(records: &Said, among: &[&str]) {
    records.is_explained(&said(&["reference"]).stdout, among);
}

pub(crate) fn interrupt(pid: u32) {
    let kill = format!("kill -INT {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}
