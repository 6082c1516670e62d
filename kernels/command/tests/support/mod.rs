//! The real binary, run as a user would run it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[path = "../../../../crates/overlock-cli/tests/cli/said.rs"]
mod heard;
pub(crate) use heard::{Said, skip};

impl Said {
    /// Asserts that `overlock reference` explains every field and counter of the records.
    #[track_caller]
    pub(crate) fn is_explained(&self) {
        let page = said(&["reference"]).stdout;
        let rows = page.lines().filter_map(|line| line.strip_prefix('|'));
        let cells = rows.filter_map(|row| row.split('|').next());
        let known: BTreeSet<&str> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let mut found = BTreeSet::new();
        for line in self.stdout.lines() {
            names(&serde_json::from_str(line).expect(line), &mut found);
        }
        let unknown: Vec<_> = found.iter().filter(|name| !known.contains(&***name)).collect();
        assert!(!found.is_empty() && unknown.is_empty(), "the reference lacks {unknown:?}");
    }
}

/// Collects all names of fields, at any depth.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.extend(name.split(':').map(str::to_owned));
            names(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

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

pub(crate) fn interrupt(pid: u32) {
    let kill = format!("kill -INT {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}
