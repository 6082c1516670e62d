// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask roots`: does a preload library that was built here run where another glibc is?
//!
//! Unpacks a minimal Debian 13 (glibc 2.41) below `target/roots`, copies the library and the
//! compiled POSIX suites there, and runs them in a chroot. It needs root, `debootstrap`, and
//! Debian's archive or a root that an earlier run has left; it skips, and says so, without.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, run};

/// The suite whose libc is newer than that of the machine which this is developed on.
const SUITE: &str = "trixie";

/// All locks run these, whose state lies in the caller's objects: their layouts are libc's.
const OF_LAYOUT: [&str; 3] = ["cond.c", "mutex.c", "fork.c"];

/// What the default lock runs as well.
const OTHERS: [&str; 7] =
    ["cancel.c", "fields.c", "special.c", "spin.c", "timed.c", "tolerated.c", "versions.c"];

const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// Where in the root everything goes.
const FOLDER: &str = "overlock";

/// Runs it all. True also where it had to be skipped.
pub(crate) fn check() -> Result<bool> {
    let folder = root().join("target/roots").join(SUITE);
    if let Some(why) = unpack(&folder)? {
        println!("skipped: {why}");
        return Ok(true);
    }
    let inside = folder.join(FOLDER);
    std::fs::create_dir_all(&inside)?;
    let built =
        run(Command::new(env!("CARGO")).args(["build", "--locked", "-p", "overlock-preload"]))?;
    if !built {
        bail!("the library does not build");
    }
    let library = "liboverlock_preload.so";
    std::fs::copy(root().join("target/debug").join(library), inside.join(library))?;
    let mut sound = true;
    for source in OF_LAYOUT.iter().chain(&OTHERS) {
        compile(source, &inside)?;
        let locks = if OF_LAYOUT.contains(source) { &LOCKS[..] } else { &LOCKS[..1] };
        for lock in locks {
            sound &= passes(&folder, source, lock)?;
        }
    }
    Ok(sound)
}

/// Unpacks the root, unless it is there. Returns why that is impossible, if it is.
fn unpack(folder: &Path) -> Result<Option<String>> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Some("only known to work on x86-64".into()));
    }
    let user = Command::new("id").arg("-u").output().context("no coreutils")?;
    if user.stdout.trim_ascii() != b"0" {
        return Ok(Some(format!("only root can run programs in a {SUITE} root")));
    }
    if folder.join("done").exists() {
        return Ok(None);
    }
    if Command::new("debootstrap").arg("--version").output().is_err() {
        return Ok(Some("debootstrap is not installed".into()));
    }
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    if !run(Command::new("debootstrap").args(["--variant=minbase", SUITE]).arg(folder))? {
        return Ok(Some(format!("{SUITE} can't be had here: see debootstrap's message above")));
    }
    std::fs::write(folder.join("done"), "")?;
    Ok(None)
}

/// A suite without its ending.
fn name_of(source: &str) -> &str {
    source.trim_end_matches(".c")
}

fn compile(source: &str, inside: &Path) -> Result<()> {
    let path: PathBuf = root().join("crates/overlock-preload/tests/posix").join(source);
    let compiled = run(Command::new("cc")
        .args(["-std=gnu11", "-O2", "-pthread"])
        .arg(path)
        .arg("-o")
        .arg(inside.join(name_of(source))))?;
    if !compiled {
        bail!("{source} does not compile");
    }
    Ok(())
}

/// Runs one suite under one lock in the root, with a `/proc` of its own. Cases say what failed.
fn passes(folder: &Path, source: &str, lock: &str) -> Result<bool> {
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/env \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(folder)
        .arg(format!("LD_PRELOAD=/{FOLDER}/liboverlock_preload.so"))
        .arg(format!("OVERLOCK_LOCK={lock}"))
        .arg(format!("/{FOLDER}/{}", name_of(source)))
        .output()
        .context("unshare comes with util-linux")?;
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    let cases = text.lines().filter(|line| line.starts_with("ok ")).count();
    let sound = output.status.success() && cases > 0;
    println!(
        "{SUITE}: {source} on {lock}: {}, {cases} cases passed",
        if sound { "ok" } else { "FAILED" }
    );
    if !sound {
        println!("{text}");
    }
    Ok(sound)
}
