//! `cargo xtask suites`: do the tests of crates that depend on `parking_lot` or `spin` end alike
//! when Overlock's locks are put in their place?
//!
//! Each crate is fetched from the registry, and its own tests run as it is and after
//! `overlock-patch add`; the table in docs/suites.md is made of that. Nothing of theirs stays in
//! the repository.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::peers::fetch;
use crate::{root, target};

/// A crate, its version, what it depends on, and arguments of its tests.
type Suite = (&'static str, &'static str, &'static str, &'static [&'static str]);

const PARKING_LOT: &str = "parking_lot";
const SPIN: &str = "spin";

/// Tests need what a package contains: where a crate keeps its other tests elsewhere, only those of
/// its library run.
const LIB: &[&str] = &["--lib"];

const SUITES: [Suite; 19] = [
    ("arc-swap", "1.9.5", PARKING_LOT, LIB),
    ("dashmap", "5.2.0", PARKING_LOT, &[]),
    ("moka", "0.12.16", PARKING_LOT, &["--lib", "--features", "sync"]),
    ("prometheus", "0.13.4", PARKING_LOT, &[]),
    ("quick_cache", "0.6.24", PARKING_LOT, LIB),
    ("r2d2", "0.8.10", PARKING_LOT, &[]),
    ("salsa", "0.16.1", PARKING_LOT, &[]),
    ("scheduled-thread-pool", "0.2.8", PARKING_LOT, LIB),
    ("serial_test", "3.5.0", PARKING_LOT, &[]),
    ("sled", "0.34.7", PARKING_LOT, LIB),
    ("string_cache", "0.8.9", PARKING_LOT, LIB),
    ("thingbuf", "0.1.6", PARKING_LOT, &["--features", "parking_lot"]),
    ("tracing-subscriber", "0.3.23", PARKING_LOT, &["--lib", "--features", "parking_lot"]),
    ("axfs_ramfs", "0.1.2", SPIN, &[]),
    ("buddy_system_allocator", "0.13.0", SPIN, &["--lib", "--tests"]),
    ("flume", "0.11.1", SPIN, &["--lib", "--tests"]),
    ("lazy_static", "1.5.1", SPIN, &["--features", "spin_no_std"]),
    ("multer", "3.1.0", SPIN, LIB),
    ("slab_allocator_rs", "1.0.2", SPIN, &[]),
];

/// How long the tests of a crate may take, compiling included.
const AT_MOST_S: &str = "480";

/// How often what fails only with the patch runs again: some tests demand milliseconds of a machine
/// that has other things to do.
const AGAIN: usize = 2;

#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    passed: u64,
    failed: BTreeSet<String>,
    /// It did not build, or ran out of time.
    why: Option<&'static str>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.why {
            return f.write_str(why);
        }
        write!(f, "{} pass", self.passed)?;
        // An example is known by its file.
        let name = |name: &String| match name.strip_suffix(".rs") {
            Some(file) => format!("an example in {file}"),
            None => format!("`{name}`"),
        };
        let failed: Vec<_> = self.failed.iter().map(name).collect();
        match &failed[..] {
            [] => Ok(()),
            [one] => write!(f, ", {one} fails"),
            all => write!(f, ", {} fail", all.join(", ")),
        }
    }
}

impl Ended {
    /// Whether as many tests ran, and only such failed as fail under `other`, too.
    fn is_as_good_as(&self, other: &Self) -> bool {
        let ran = |of: &Self| of.passed + of.failed.len() as u64;
        self.why == other.why && ran(self) >= ran(other) && self.failed.is_subset(&other.failed)
    }

    /// Takes back the failures of `only` that did not recur when these tests ran again.
    fn take_back(&mut self, only: &BTreeSet<String>, again: &Self) {
        let ran = again.passed + again.failed.len() as u64;
        if again.why.is_none() && ran >= only.len() as u64 {
            for name in only.difference(&again.failed) {
                self.passed += u64::from(self.failed.remove(name));
            }
        }
    }

    fn read(said: &str, code: Option<i32>) -> Self {
        let results = said.lines().filter_map(|line| line.strip_prefix("test result: "));
        let passed = results.filter_map(|line| {
            let (_, counts) = line.split_once(". ")?;
            counts.split(' ').next()?.parse::<u64>().ok()
        });
        let passed: Vec<u64> = passed.collect();
        let failed = said.lines().filter_map(|line| {
            let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(name.split(' ').next()?.to_owned())
        });
        let why = match code {
            Some(124) => Some("out of time (8 minutes)"),
            _ if passed.is_empty() => Some("does not build"),
            _ => None,
        };
        Self { passed: passed.iter().sum(), failed: failed.collect(), why }
    }
}

/// Runs the suites of these crates, or all. Also returns true if it had to skip.
pub(crate) fn check(only: &[&str]) -> Result<bool> {
    let known = |name: &&str| SUITES.iter().any(|suite| suite.0 == *name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let names = SUITES.map(|suite| suite.0).join(", ");
        anyhow::bail!("there is no suite of '{unknown}'; choose from {names}");
    }
    let chosen = SUITES.iter().filter(|suite| only.is_empty() || only.contains(&suite.0));
    let chosen: Vec<&Suite> = chosen.collect();
    let folder = target()?.join("suites");
    let wanted = |(name, version, ..): &&Suite| format!("{name} = \"={version}\"\n");
    let Some(vendor) = fetch(&folder, &chosen.iter().map(wanted).collect::<String>())? else {
        return Ok(true);
    };
    let mut sound = true;
    for &&(name, version, over, args) in &chosen {
        let package = vendor.join(format!("{name}-{version}"));
        prepare(&package)?;
        let theirs = tests(&package, args, &BTreeSet::new())?;
        patch("add", &package)?;
        ensure!(is_patched(over, &package, args)?, "{name} still has another {over}");
        let mut ours = tests(&package, args, &BTreeSet::new())?;
        for _ in 0..AGAIN {
            let only: BTreeSet<_> = ours.failed.difference(&theirs.failed).cloned().collect();
            if !only.is_empty() {
                ours.take_back(&only, &tests(&package, args, &only)?);
            }
        }
        let is_alike = ours.is_as_good_as(&theirs);
        let verdict = if is_alike { "alike" } else { "DIFFERENT" };
        println!("{verdict}: {name}: with the patch {ours}; without {theirs}");
        sound &= is_alike;
        write(&format!("| {name} {version} | `{over}` | {ours} | {theirs} |"))?;
    }
    Ok(sound)
}

/// Makes a fetched package one that can be tested by itself.
fn prepare(package: &Path) -> Result<()> {
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(manifest, format!("{text}\n[workspace]\n"))?;
    // They name releases, and a compiler, of their time.
    for old in ["Cargo.lock", "rust-toolchain", "rust-toolchain.toml"] {
        let _ = fs::remove_file(package.join(old));
    }
    Ok(())
}

/// Runs `overlock-patch`. Without the features of the tests, it may find nothing to patch.
fn patch(verb: &str, package: &Path) -> Result<()> {
    let mut patch = Command::new(root().join("compat/patch/overlock-patch"));
    patch.arg(verb).current_dir(package).stdout(Stdio::null()).status()?;
    Ok(())
}

/// Whether the tests are built with ours.
fn is_patched(over: &str, package: &Path, args: &[&str]) -> Result<bool> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--quiet", "--prefix", "none", "--format", "{p}"]).current_dir(package);
    cargo.args(args.iter().filter(|arg| !["--lib", "--tests"].contains(arg)));
    let tree = cargo.output()?.stdout;
    let tree = String::from_utf8_lossy(&tree);
    let mut found = tree.lines().filter(|line| line.starts_with(&format!("{over} v"))).peekable();
    Ok(found.peek().is_some() && found.all(|line| line.contains("compat/patch")))
}

/// Runs a package's own tests: those whose names contain one of `only`, or all.
fn tests(package: &Path, args: &[&str], only: &BTreeSet<String>) -> Result<Ended> {
    let mut cargo = Command::new("timeout");
    cargo.args([AT_MOST_S, env!("CARGO"), "test", "--no-fail-fast"]).args(args);
    cargo.arg("--").args(only);
    cargo.env("CARGO_TARGET_DIR", target()?.join("suites/target"));
    // Warnings of their time are no errors, and no lock file may forbid the patch.
    cargo.env("RUSTFLAGS", "--cap-lints=warn").current_dir(package);
    let ended = cargo.output().context("there is no timeout here")?;
    Ok(Ended::read(&String::from_utf8_lossy(&ended.stdout), ended.status.code()))
}

/// Puts a crate's row into the table; the rows of the others stay.
fn write(row: &str) -> Result<()> {
    const BEGIN: &str = "<!-- crates -->\n";
    let page = root().join("docs/suites.md");
    let text = fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(BEGIN).context("docs/suites.md has no place for it")?;
    let (rows, after) = rest.split_once("<!-- end -->").context("the place has no end")?;
    let rows: Vec<&str> = rows.lines().skip(2).chain([row]).collect();
    let mut table = "| crate | over | with the patch | without |\n|---|---|---|---|\n".to_owned();
    for (name, version, ..) in SUITES {
        // The last one is the newest.
        let own = rows.iter().rfind(|row| row.starts_with(&format!("| {name} {version} |")));
        own.into_iter().for_each(|row| table += &format!("{row}\n"));
    }
    Ok(fs::write(page, format!("{before}{BEGIN}{table}<!-- end -->{after}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_print_is_read() {
        let said = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored\n\
                    test src/lib.rs - (line 3) ... ok\ntest result: ok. 7 passed; 0 failed\n";
        let ended = Ended::read(said, Some(101));
        assert_eq!(ended.to_string(), "8 pass, `a::c` fails");
        let both = said.replace("a::b ... ok", "a::b ... FAILED");
        assert_eq!(Ended::read(&both, Some(101)).to_string(), "8 pass, `a::b`, `a::c` fail");
        let example = said.replace("(line 3) ... ok", "(line 3) ... FAILED");
        let example = Ended::read(&example.replace("a::c", "a::d"), Some(101)).to_string();
        assert_eq!(example, "8 pass, `a::d`, an example in src/lib fail");
        assert_eq!(Ended::read("", Some(101)).to_string(), "does not build");
        assert_eq!(Ended::read(said, Some(124)).to_string(), "out of time (8 minutes)");
        let only = BTreeSet::from(["a::c".to_owned()]);
        let said = |again: &str, code| {
            let mut ended = Ended::read(said, Some(101));
            ended.take_back(&only, &Ended::read(again, code));
            ended.to_string()
        };
        assert_eq!(said("test result: ok. 1 passed; 0 failed\n", Some(0)), "9 pass");
        let failed = "test a::c ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n";
        for (again, code) in [(failed, 101), ("", 101), ("test result: ok. 0 passed\n", 0)] {
            assert_eq!(said(again, Some(code)), "8 pass, `a::c` fails", "{again}");
        }
        let fine = Ended { passed: 9, ..Ended::default() };
        assert!(fine.is_as_good_as(&ended) && ended.is_as_good_as(&ended));
        assert!(!ended.is_as_good_as(&fine) && !Ended::default().is_as_good_as(&fine));
    }
}
