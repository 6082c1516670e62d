// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bakes the commit this binary was built from into it, so that a result file can name it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo::rerun-if-changed=..");
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    let commit = if commit.trim().is_empty() { "unknown" } else { commit.trim() };
    println!("cargo::rustc-env=OVERLOCK_COMMIT={commit}");
}
