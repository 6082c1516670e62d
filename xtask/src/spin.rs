//! `cargo xtask spin`: does `overlock-spin` stand in for `spin`?
//!
//! As for `parking_lot`: it fetches `spin` from the registry, and runs its own tests on ours.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::parking_lot::{fetch, ours, package, tests, tests_of};
use crate::target;

/// What is fetched: the version of `spin` whose tests run.
const FETCHED: &str = "spin = \"=0.10.1\"\n";

const NAME: &str = "overlock-spin";

/// The source files of `spin` that contain tests, and the module in which each stands.
const FILES: [(&str, &str); 3] = [("once", "once"), ("rwlock", "rwlock"), ("mutex/spin", "mutex")];

/// A test is no kernel, and can't say what the CPUs are: they are threads.
const THREADS: &[&str] = &["--features", "spin/threads"];

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check() -> Result<bool> {
    let folder = target()?.join("spin");
    let Some(vendor) = fetch(&folder, FETCHED)? else { return Ok(true) };
    spins(&vendor.join("spin-0.10.1"), &folder.join("theirs"))
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
