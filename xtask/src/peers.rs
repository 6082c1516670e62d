//! `cargo xtask parking-lot` and `cargo xtask spin`: do our crates stand in for `parking_lot` and
//! for `spin`?
//!
//! Both are fetched from the registry, and their own tests run on ours. Nothing of them stays in
//! the repository. They lie in its source files, and are taken from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{root, target};

/// A crate whose names ours have.
pub(crate) struct Peer {
    name: &'static str,
    /// The version whose tests run.
    version: &'static str,
    ours: &'static str,
    features: &'static str,
    /// What its tests need beside it, at the end of a manifest.
    needed: &'static str,
    /// What its tests find in the root of the crate, and in each module.
    root: &'static str,
    uses: &'static str,
    /// The source files that contain tests, and the module in which each stands.
    files: &'static [(&'static str, &'static str)],
    /// What is different here.
    different: &'static [(&'static str, &'static str)],
    args: &'static [&'static str],
}

pub(crate) const PARKING_LOT: Peer = Peer {
    name: "parking_lot",
    version: "0.12.5",
    ours: "overlock-parking-lot",
    features: r#""serde", "arc_lock""#,
    needed: "bincode = \"1.3\"\nrand = \"0.8\"\n\n[features]\ndefault = [\"serde\"]\nserde = []\n",
    root: "pub use parking_lot::*;",
    uses: "",
    files: &[
        ("condvar", "condvar"),
        ("fair_mutex", "fair_mutex"),
        ("mutex", "mutex"),
        ("once", "once"),
        ("remutex", "remutex"),
        ("rwlock", "rwlock"),
    ],
    // Calls of a method that only it sees itself, and what does the same from outside.
    different: &[
        (
            ".wait_while_until_internal(&mut mutex_guard, condition, None)",
            ".wait_while_for(&mut mutex_guard, condition, Duration::MAX)",
        ),
        (
            ".wait_while_until_internal(&mut mutex_guard, condition, timeout)",
            ".wait_while_until(&mut mutex_guard, condition, timeout.unwrap())",
        ),
    ],
    args: &[],
};

pub(crate) const SPIN: Peer = Peer {
    name: "spin",
    version: "0.10.1",
    ours: "overlock-spin",
    features: "",
    needed: "",
    root: "",
    uses: "#[allow(unused_imports)]\nuse {::spin::MODULE::*, std::sync::atomic::Ordering};",
    files: &[("once", "once"), ("rwlock", "rwlock"), ("mutex/spin", "mutex")],
    // As the README says: types have no parameter for a way to relax, and an upgradable reader lets
    // readers in.
    different: &[
        ("Once::<_, Spin>", "Once::<_>"),
        (
            "let upg = m.try_upgradeable_read().unwrap();\n            \
             assert!(m.try_read().is_none());",
            "let upg = m.try_upgradeable_read().unwrap();",
        ),
    ],
    // A test is no kernel, and can't say what the CPUs are: they are threads.
    args: &["--features", "spin/threads"],
};

/// Runs the tests of a crate on ours. Also returns true if it had to skip.
pub(crate) fn check(peer: &Peer) -> Result<bool> {
    let Peer { name, version, ours: own, features, needed, .. } = peer;
    let folder = target()?.join(name.replace('_', "-"));
    let wanted = format!("{name} = \"={version}\"\n");
    let Some(vendor) = fetch(&folder, &wanted)? else { return Ok(true) };
    let (from, to) = (vendor.join(format!("{name}-{version}")), folder.join("theirs"));
    package(&to, &format!("{name} = {{ {}, features = [{features}] }}\n{needed}", ours(own)))?;
    let mut lib = format!("{}\n", peer.root);
    for (file, module) in peer.files {
        let tests = tests_of(&from.join("src").join(file), peer.different)?;
        let uses = peer.uses.replace("MODULE", module);
        lib += &format!("#[cfg(test)]\nmod {module} {{\n{uses}\nmod tests {{{tests}}}\n");
    }
    fs::write(to.join("src/lib.rs"), lib)?;
    fs::create_dir_all(to.join("tests"))?;
    for test in fs::read_dir(from.join("tests")).into_iter().flatten() {
        let test = test?;
        fs::copy(test.path(), to.join("tests").join(test.file_name()))?;
    }
    println!("+ cargo test in {}", to.display());
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg("test").args(peer.args).current_dir(to);
    let status = cargo.env("CARGO_TARGET_DIR", target()?.join("parking-lot/target")).status()?;
    Ok(status.success())
}

/// Fetches these dependencies, and returns where it is; or says why that can't be done.
pub(crate) fn fetch(folder: &Path, dependencies: &str) -> Result<Option<PathBuf>> {
    let fetched = folder.join("fetched");
    // An earlier run has changed what it fetched.
    let _ = fs::remove_dir_all(&fetched);
    package(&fetched, dependencies)?;
    let vendor = ["vendor", "--versioned-dirs", "--quiet"];
    let output = Command::new(env!("CARGO")).args(vendor).current_dir(&fetched).output()?;
    if !output.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
        return Ok(None);
    }
    Ok(Some(fetched.join("vendor")))
}

/// One of our crates, as a dependency by another name.
pub(crate) fn ours(name: &str) -> String {
    format!("package = \"{name}\", path = {:?}", root().join("crates").join(name))
}

/// The tests in a source file without its extension, with what differs here replaced.
fn tests_of(file: &Path, different: &[(&str, &str)]) -> Result<String> {
    let text = fs::read_to_string(file.with_extension("rs"))?;
    let (_, tests) = text.split_once("#[cfg(test)]\nmod tests {").context("has no tests")?;
    Ok(different.iter().fold(tests.to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// Makes an empty package with these dependencies.
pub(crate) fn package(folder: &Path, dependencies: &str) -> Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    let name = folder.file_name().context("a folder has a name")?.display();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [workspace]\n\n[dependencies]\n{dependencies}"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    Ok(fs::write(folder.join("src/lib.rs"), "")?)
}
