// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask spin`: does `overlock-spin` stand in for `spin`?
//!
//! As for `parking_lot`: it fetches `spin` and `no_std` crates that depend on it from the registry,
//! renames the dependency, and runs their own tests. Nothing of theirs stays in the repository.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::parking_lot::{fetch, ours, package, rename, tests, tests_of};
use crate::target;

/// What is fetched: the version of `spin` whose tests run, and crates for kernels that depend on
/// it: an allocator, behind a mutex, and a file system in memory, behind read-write locks.
const FETCHED: &str = r#"spin = "=0.10.1"
buddy_system_allocator = "=0.13.0"
axfs_ramfs = "=0.1.2"
"#;

/// Our crate.
const NAME: &str = "overlock-spin";

/// The source files of `spin` that contain tests, and the module in which each stands.
const FILES: [(&str, &str); 3] = [("once", "once"), ("rwlock", "rwlock"), ("mutex/spin", "mutex")];

/// A test is no kernel, and can't say what the CPUs are: they are threads.
const THREADS: &[&str] = &["--features", "spin/threads"];

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check() -> Result<bool> {
    let folder = target()?.join("spin");
    let Some(vendor) = fetch(&folder, FETCHED)? else { return Ok(true) };
    let sound = spins(&vendor.join("spin-0.10.1"), &folder.join("theirs"))?;
    let allocator = vendor.join("buddy_system_allocator-0.13.0");
    let theirs = "[dependencies.spin]\nversion = \"0.10.0\"\n";
    let allocates = dependant(&allocator, theirs)?;
    let files = vendor.join("axfs_ramfs-0.1.2");
    Ok(dependant(&files, "[dependencies.spin]\nversion = \"0.9\"\n")? && allocates && sound)
}

/// What is different here, as the README says: types have no parameter for a way to relax, and an
/// upgradable reader lets readers in.
const DIFFERENT: [(&str, &str); 2] = [
    ("Once::<_, Spin>", "Once::<_>"),
    (
        "let upg = m.try_upgradeable_read().unwrap();\n            assert!(m.try_read().is_none());",
        "let upg = m.try_upgradeable_read().unwrap();",
    ),
];

/// Runs the tests of `spin`.
fn spins(from: &Path, to: &Path) -> Result<bool> {
    package(to, &format!("spin = {{ {} }}\n", ours(NAME)))?;
    let mut lib = String::new();
    for (file, module) in FILES {
        let tests = tests_of(&from.join("src").join(file), &DIFFERENT)?;
        lib += &format!(
            "#[cfg(test)]\nmod {module} {{\n#[allow(unused_imports)]\n\
             use {{spin::{module}::*, std::sync::atomic::Ordering}};\nmod tests {{{tests}}}\n"
        );
    }
    fs::write(to.join("src/lib.rs"), lib)?;
    tests(to, THREADS)
}

/// Runs the tests of a crate that asks for `spin` by these lines.
fn dependant(folder: &Path, theirs: &str) -> Result<bool> {
    let text = rename(folder, theirs, NAME)?;
    // What only its benchmarks need is not built.
    let text = text.split("\n[dev-dependencies").next().unwrap_or_default();
    fs::write(folder.join("Cargo.toml"), text.replace("[[bench]]", "[package.metadata.bench]"))?;
    // It may name releases that need a compiler of their time.
    fs::remove_file(folder.join("Cargo.lock"))?;
    tests(folder, THREADS)
}
