//! `cargo xtask roots`: does a preload library that was built here run with another glibc?
//!
//! It copies the library and the compiled POSIX suites into minimal roots of Debian 12 (glibc 2.36)
//! and 13 (2.41), and runs them there. It skips visibly where there is no such root (`debian.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian::{Root, SUITES, inside, root_of};
use crate::{root, run, target};

/// The cases that all locks run: their state lies in the caller's objects, in libc's layout.
const OF_EACH_LOCK: [&str; 4] = ["cond.c", "mutex.c", "fork.c", "tolerated.c"];

/// The cases that only the default lock also runs.
const OF_THE_DEFAULT: &str = "\
    barrier.c cancel.c cxx.cc fields.c jumps.c outside.c passed_on.c rwlock.c sandboxed.c \
    special.c spin.c timed.c versions.c";

const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// The folder in the root for all files.
const FOLDER: &str = "overlock";

const LIBRARY: &str = "liboverlock_preload.so";

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check() -> Result<bool> {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: only known to work on x86-64");
        return Ok(true);
    }
    let mut roots = Vec::new();
    for suite in SUITES {
        match root_of(suite)? {
            Root::Unpacked(folder) => match newer_here(&folder)? {
                None => roots.push((suite, folder)),
                Some(why) => println!("skipped: {suite}: {why}"),
            },
            Root::Impossible(why) => println!("skipped: {suite}: {why}"),
        }
    }
    if roots.is_empty() {
        return Ok(true);
    }
    let files = files()?;
    let mut sound = true;
    for (suite, folder) in roots {
        let place = folder.join(FOLDER);
        std::fs::create_dir_all(&place)?;
        for file in &files {
            let name = file.file_name().context("a file has a name")?;
            std::fs::copy(file, place.join(name))?;
        }
        let each = OF_EACH_LOCK.into_iter().flat_map(|source| LOCKS.map(|lock| (source, lock)));
        let default = OF_THE_DEFAULT.split(' ').map(|source| (source, LOCKS[0]));
        for (source, lock) in each.chain(default) {
            sound &= passes(suite, &folder, source, lock)?;
        }
    }
    Ok(sound)
}

/// Returns why programs that are built here may not run in the root, if its glibc is older.
fn newer_here(folder: &Path) -> Result<Option<String>> {
    let here = glibc(Command::new("ldd").arg("--version"))?;
    let there = glibc(&mut inside(folder, &["ldd", "--version"]))?;
    let why = || format!("programs built with glibc {}.{} need a newer one", here.0, here.1);
    Ok((here > there).then(|| format!("its glibc is {}.{}; {}", there.0, there.1, why())))
}

/// The version that ends the first line of `ldd --version`.
fn glibc(ldd: &mut Command) -> Result<(u32, u32)> {
    let output = ldd.output().context("ldd comes with libc-bin")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().next().and_then(|line| line.split_whitespace().next_back());
    version
        .and_then(|version| version.split_once('.'))
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .with_context(|| format!("no version in '{text}'"))
}

/// Builds the library and the suites; returns the files.
fn files() -> Result<Vec<PathBuf>> {
    let built =
        run(Command::new(env!("CARGO")).args(["build", "--locked", "-p", "overlock-preload"]))?;
    if !built {
        bail!("the library does not build");
    }
    let place = target()?.join("roots").join("suites");
    std::fs::create_dir_all(&place)?;
    let mut files = vec![target()?.join("debug").join(LIBRARY)];
    for source in OF_EACH_LOCK.into_iter().chain(OF_THE_DEFAULT.split(' ')) {
        files.push(compile(source, &place)?);
    }
    Ok(files)
}

/// Returns the name of a suite without its ending.
fn name_of(source: &str) -> &str {
    source.split('.').next().unwrap_or(source)
}

fn compile(source: &str, place: &Path) -> Result<PathBuf> {
    let path: PathBuf = root().join("crates/overlock-preload/tests/posix").join(source);
    let (compiler, standard) =
        if source.ends_with(".cc") { ("c++", "-std=gnu++17") } else { ("cc", "-std=gnu11") };
    let program = place.join(name_of(source));
    let mut command = Command::new(compiler);
    if !run(command.args([standard, "-O2", "-pthread"]).arg(path).arg("-o").arg(&program))? {
        bail!("{source} does not compile");
    }
    Ok(program)
}

/// Runs one suite under one lock in the root, with its own `/proc`. The cases print what failed.
fn passes(suite: &str, folder: &Path, source: &str, lock: &str) -> Result<bool> {
    let words = [
        format!("LD_PRELOAD=/{FOLDER}/{LIBRARY}"),
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
        "{suite}: {source} on {lock}: {}, {cases} cases passed",
        if sound { "ok" } else { "FAILED" }
    );
    if !sound {
        println!("{text}");
    }
    Ok(sound)
}
