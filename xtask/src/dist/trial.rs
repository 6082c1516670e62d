//! What can be installed, tried: the Debian package in clean roots, and the archive on this
//! machine. Each is tested by its own test, and removed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::{dist, files, succeeds, version};
use crate::debian::{Root, SUITES, clear, inside, root_of};
use crate::{run, target};

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

/// The test that is installed with everything, below a prefix.
const TEST: &str = "share/doc/overlock/test.sh";

/// Packs everything twice, which must give the same bytes, and tests the unpacked archive.
pub(crate) fn check_installed() -> Result<bool> {
    let out = target()?.join("dist");
    let name = format!("overlock-{}-{}", version(), std::env::consts::ARCH);
    let archive = out.join(format!("{name}.tar.xz"));
    let package = out.join(format!("overlock_{}_{}.deb", version(), architecture()));
    let packed = || dist().and_then(|_| Ok([std::fs::read(&archive)?, std::fs::read(&package)?]));
    let is_same = packed()? == packed()?;
    if !is_same {
        println!("the archive or the package has other bytes the second time");
    }
    let unpacked = out.join("unpacked");
    clear(&unpacked)?;
    std::fs::create_dir_all(&unpacked)?;
    let mut tar = Command::new("tar");
    succeeds(tar.arg("-xJf").arg(&archive).arg("-C").arg(&unpacked))?;
    let prefix = unpacked.join(name);
    let passes = run(Command::new("sh").arg(prefix.join(TEST)).arg(&prefix))?;
    clear(&unpacked)?;
    Ok(is_same && passes)
}

/// What a program needs to be built with the C library.
const COMPILER: [&str; 3] = ["gcc", "libc6-dev", "pkg-config"];

/// Installs a compiler in a root; returns false if it can't reach an archive.
fn add_compiler(folder: &Path) -> Result<bool> {
    let apt = |words: &[&str]| {
        let quiet = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"];
        let mut command = inside(folder, &[&quiet, words].concat());
        run(command.stdout(Stdio::null()))
    };
    let install = [&["install", "-y", "--no-install-recommends"][..], &COMPILER].concat();
    Ok(apt(&["update"])? && apt(&install)?)
}

/// Installs, tests, removes. The first test runs where only what the package depends on is
/// installed, the second also builds programs with the C library.
fn try_in(folder: &Path) -> Result<bool> {
    let before = files(&folder.join("usr"))?;
    let package = format!("overlock_{}_{}.deb", version(), architecture());
    std::fs::copy(target()?.join("dist").join(&package), folder.join(&package))?;
    let test = || run(&mut inside(folder, &["sh", &format!("/usr/{TEST}")]));
    let mut tested = run(&mut inside(folder, &["dpkg", "-i", &format!("/{package}")]))? && test()?;
    if tested && add_compiler(folder)? {
        tested = test()?;
    } else if tested {
        println!("skipped: the C library: {} can't be installed there", COMPILER.join(", "));
    }
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
