// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask roots`: does a preload library that was built here run with another glibc?
//!
//! It copies the library and the compiled POSIX suites into a minimal Debian 13 (glibc 2.41), and
//! runs them there. It skips visibly where there is no such root (`debian.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian::{Root, inside, root_of};
use crate::{root, run, target};

/// The suite whose libc is newer than that of the development machine.
const SUITE: &str = "trixie";

/// The cases that all locks run: their state lies in the caller's objects, in libc's layout.
const OF_LAYOUT: [&str; 3] = ["cond.c", "mutex.c", "fork.c"];

/// The cases that only the default lock also runs.
const OTHERS: [&str; 7] =
    ["cancel.c", "fields.c", "special.c", "spin.c", "timed.c", "tolerated.c", "versions.c"];

const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// The folder in the root for all files.
const FOLDER: &str = "overlock";

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check() -> Result<bool> {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: only known to work on x86-64");
        return Ok(true);
    }
    let folder = match root_of(SUITE)? {
        Root::Unpacked(folder) => folder,
        Root::Impossible(why) => {
            println!("skipped: {why}");
            return Ok(true);
        }
    };
    let place = folder.join(FOLDER);
    std::fs::create_dir_all(&place)?;
    let built =
        run(Command::new(env!("CARGO")).args(["build", "--locked", "-p", "overlock-preload"]))?;
    if !built {
        bail!("the library does not build");
    }
    let library = "liboverlock_preload.so";
    std::fs::copy(target()?.join("debug").join(library), place.join(library))?;
    let mut sound = true;
    for source in OF_LAYOUT.iter().chain(&OTHERS) {
        compile(source, &place)?;
        let locks = if OF_LAYOUT.contains(source) { &LOCKS[..] } else { &LOCKS[..1] };
        for lock in locks {
            sound &= passes(&folder, source, lock)?;
        }
    }
    Ok(sound)
}

/// Returns the name of a suite without its ending.
fn name_of(source: &str) -> &str {
    source.trim_end_matches(".c")
}

fn compile(source: &str, place: &Path) -> Result<()> {
    let path: PathBuf = root().join("crates/overlock-preload/tests/posix").join(source);
    let compiled = run(Command::new("cc")
        .args(["-std=gnu11", "-O2", "-pthread"])
        .arg(path)
        .arg("-o")
        .arg(place.join(name_of(source))))?;
    if !compiled {
        bail!("{source} does not compile");
    }
    Ok(())
}

/// Runs one suite under one lock in the root, with its own `/proc`. The cases print what failed.
fn passes(folder: &Path, source: &str, lock: &str) -> Result<bool> {
    let words = [
        format!("LD_PRELOAD=/{FOLDER}/liboverlock_preload.so"),
        format!("OVERLOCK_LOCK={lock}"),
        format!("/{FOLDER}/{}", name_of(source)),
    ];
    let output = inside(folder, &words.each_ref().map(String::as_str))
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
