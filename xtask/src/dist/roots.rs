//! The Debian package in clean roots: installed, tested by its own test, removed.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{clear, dist, files, succeeds, target, version};
use crate::run;

/// Debian 12 and 13.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// Builds the package and tries it in a new root of each suite. Skips, and says so, where a root
/// can't be made.
pub(crate) fn check(suites: &[&str]) -> Result<bool> {
    if !is_root() || Command::new("debootstrap").arg("--version").output().is_err() {
        println!("skipped: clean Debian roots need debootstrap and the rights of root");
        return Ok(true);
    }
    dist()?;
    let mut fine = true;
    for suite in if suites.is_empty() { &SUITES } else { suites } {
        let folder = target()?.join("dist").join(format!("root-{suite}"));
        clear(&folder)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.arg("--variant=minbase").arg(suite).arg(&folder);
        if !debootstrap.stdout(std::process::Stdio::null()).status()?.success() {
            println!("skipped: debootstrap made no root of {suite}; can it reach an archive?");
            continue;
        }
        let passed = try_in(&folder)?;
        println!("{suite}: {}", if passed { "passed" } else { "FAILED" });
        fine &= passed;
        clear(&folder)?;
    }
    Ok(fine)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

/// Installs, tests, removes.
fn try_in(folder: &Path) -> Result<bool> {
    let before = files(&folder.join("usr"))?;
    let package = format!("overlock_{}_{}.deb", version(), architecture());
    std::fs::copy(target()?.join("dist").join(&package), folder.join(&package))?;
    succeeds(Command::new("mount").args(["-t", "proc", "proc"]).arg(folder.join("proc")))?;
    let inside = |words: &[&str]| run(Command::new("chroot").arg(folder).args(words));
    let tested = inside(&["dpkg", "-i", &format!("/{package}")])
        .and_then(|fine| Ok(fine && inside(&["sh", "/usr/share/doc/overlock/test.sh"])?));
    let removed = inside(&["dpkg", "--purge", "overlock"]);
    succeeds(Command::new("umount").arg(folder.join("proc")))?;
    let left: Vec<String> =
        files(&folder.join("usr"))?.into_iter().filter(|file| !before.contains(file)).collect();
    let ours: Vec<&String> = left.iter().filter(|file| file.contains("overlock")).collect();
    if !ours.is_empty() {
        println!("left behind: {ours:?}");
    }
    Ok(tested? && removed? && ours.is_empty())
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
