//! `cargo xtask parking-lot`: does `overlock-parking-lot` stand in for `parking_lot`?
//!
//! It fetches `parking_lot` from the registry, and runs its own tests on ours. Nothing of them
//! stays in the repository. They lie in its source files, and are taken from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{root, target};

/// What is fetched: the version of `parking_lot` whose tests run.
const FETCHED: &str = "parking_lot = \"=0.12.5\"\n";

/// What the tests of `parking_lot` need beside it.
const NEEDED: &str = r#"bincode = "1.3"
rand = "0.8"

[features]
default = ["serde"]
serde = []
"#;

const NAME: &str = "overlock-parking-lot";

/// The source files of `parking_lot` that contain tests.
const FILES: [&str; 6] = ["condvar", "fair_mutex", "mutex", "once", "remutex", "rwlock"];

/// Calls of a method that only `parking_lot` itself sees, and what does the same from outside.
const PRIVATE: [(&str, &str); 2] = [
    (
        ".wait_while_until_internal(&mut mutex_guard, condition, None)",
        ".wait_while_for(&mut mutex_guard, condition, Duration::MAX)",
    ),
    (
        ".wait_while_until_internal(&mut mutex_guard, condition, timeout)",
        ".wait_while_until(&mut mutex_guard, condition, timeout.unwrap())",
    ),
];

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check() -> Result<bool> {
    let folder = target()?.join("parking-lot");
    let Some(vendor) = fetch(&folder, FETCHED)? else { return Ok(true) };
    parking_lots(&vendor.join("parking_lot-0.12.5"), &folder.join("theirs"))
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

fn parking_lots(from: &Path, to: &Path) -> Result<bool> {
    let features = "features = [\"serde\", \"arc_lock\"]";
    package(to, &format!("parking_lot = {{ {}, {features} }}\n{NEEDED}", ours(NAME)))?;
    let mut lib = "pub use parking_lot::*;\n".to_owned();
    for file in FILES {
        let tests = tests_of(&from.join("src").join(file), &PRIVATE)?;
        lib += &format!("#[cfg(test)]\nmod {file} {{\nmod tests {{{tests}}}\n");
    }
    fs::write(to.join("src/lib.rs"), lib)?;
    fs::create_dir_all(to.join("tests"))?;
    for test in fs::read_dir(from.join("tests"))? {
        let test = test?;
        fs::copy(test.path(), to.join("tests").join(test.file_name()))?;
    }
    tests(to, &[])
}

/// One of our crates, as a dependency by another name.
pub(crate) fn ours(name: &str) -> String {
    format!("package = \"{name}\", path = {:?}", root().join("crates").join(name))
}

/// The tests in a source file without its extension, with what differs here replaced.
pub(crate) fn tests_of(file: &Path, different: &[(&str, &str)]) -> Result<String> {
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

pub(crate) fn tests(folder: &Path, args: &[&str]) -> Result<bool> {
    println!("+ cargo test in {}", folder.display());
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .arg("test")
        .args(args)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target()?.join("parking-lot/target"));
    Ok(cargo.status()?.success())
}
