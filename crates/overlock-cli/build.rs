//! Builds into the command the commit that it was built from, so that a result file can name it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo::rerun-if-changed=..");
    println!("cargo::rustc-env=OVERLOCK_COMMIT={}", commit());
    // For the tests, in which a library stands in for the one in `overlock-programs`.
    let build = std::env::var("DEP_OVERLOCK_PRELOAD_BUILD").expect("overlock-programs sets it");
    println!("cargo::rustc-env=OVERLOCK_BUILD={build}");
}

fn commit() -> String {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    if commit.is_empty() { "unknown".into() } else { commit }
}

/// Returns what git prints; nothing where it fails.
fn git(words: &[&str]) -> String {
    let output = Command::new("git").args(words).output().ok();
    let output = output.filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.as_deref().map_or("", str::trim).into()
}
