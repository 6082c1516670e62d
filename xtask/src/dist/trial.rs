// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package in clean roots: installed, tested by its own test, removed.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{dist, files, succeeds, version};
use crate::debian::{Root, clear, inside, root_of};
use crate::{run, target};

/// Debian 12 and 13.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// Builds the package and tries it in a copy of the root of each suite. Skips visibly where there
/// is no root.
pub(crate) fn check(suites: &[&str]) -> Result<bool> {
    let mut roots = Vec::new();
    for &suite in if suites.is_empty() { &SUITES } else { suites } {
        match root_of(suite)? {
            Root::Unpacked(folder) => roots.push((suite, folder)),
            Root::Impossible(why) => println!("skipped: {suite}: {why}"),
        }
    }
    if roots.is_empty() {
        return Ok(true);
    }
    dist()?;
    let mut fine = true;
    for (suite, root) in roots {
        let copy = target()?.join("dist").join(format!("root-{suite}"));
        clear(&copy)?;
        succeeds(Command::new("cp").args(["-a", "--reflink=auto"]).arg(root).arg(&copy))?;
        let passed = try_in(&copy)?;
        println!("{suite}: {}", if passed { "passed" } else { "FAILED" });
        fine &= passed;
        clear(&copy)?;
    }
    Ok(fine)
}

/// Installs, tests, removes.
fn try_in(folder: &Path) -> Result<bool> {
    let before = files(&folder.join("usr"))?;
    let package = format!("overlock_{}_{}.deb", version(), architecture());
    std::fs::copy(target()?.join("dist").join(&package), folder.join(&package))?;
    let tested = run(&mut inside(folder, &["dpkg", "-i", &format!("/{package}")]))?
        && run(&mut inside(folder, &["sh", "/usr/share/doc/overlock/test.sh"]))?;
    let removed = run(&mut inside(folder, &["dpkg", "--purge", "overlock"]))?;
    let mut left = files(&folder.join("usr"))?;
    left.retain(|file| file.contains("overlock") && !before.contains(file));
    if !left.is_empty() {
        println!("left behind: {left:?}");
    }
    Ok(tested && removed && left.is_empty())
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
