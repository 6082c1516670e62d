//! Weak memory: `cargo xtask weak`.
//!
//! A build machine is usually an x86-64, which reorders little, so the tests that run on it show
//! little about orderings. The models do (`crates/overlock/tests/loom.rs`). This file checks the
//! rest, each part as far as this machine has the tools for it:
//!
//! | part | shows | does not show |
//! |---|---|---|
//! | miri | the interpreter finds no undefined behaviour, with stores that other threads see late | more than a few threads, forks, restartable sequences |
//! | aarch64 code | the compiler emits for each verb what its ordering requires and nothing stronger ([`mod@code`]) | the slow halves |
//! | aarch64 suites | the library works with that processor's atomic instructions, sizes and system calls | reordering: the emulator cannot reorder more than its host |

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::targets::is_there;
use crate::{root, run};

mod code;

const TARGET: &str = "aarch64-unknown-linux-gnu";

enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

use Outcome::{Failed, Passed, Skipped};

impl From<bool> for Outcome {
    fn from(sound: bool) -> Self {
        if sound { Passed } else { Failed }
    }
}

/// Checks everything that this machine can check, and lists the parts.
pub(crate) fn check(may_install: bool) -> Result<bool> {
    let mut parts = vec![("miri", miri()?)];
    if is_there(TARGET, may_install) {
        parts.push(("aarch64 code", code()?));
        parts.push(("aarch64 suites", suites()?));
    } else {
        let remedy = format!("rustup target add {TARGET}");
        parts.push(("everything for aarch64", Skipped(remedy)));
    }
    println!();
    for (part, outcome) in &parts {
        match outcome {
            Passed => println!("passed: {part}"),
            Failed => println!("FAILED: {part}"),
            Skipped(reason) => println!("skipped: {part}: {reason}"),
        }
    }
    Ok(!parts.iter().any(|(_, outcome)| matches!(outcome, Failed)))
}

/// Returns the folder of the compiler and of what it builds, which must not disturb other builds.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    root().join(target).join("weak")
}

/// Returns whether a command can be started and answers a request for its version.
fn is_present(command: &[&str]) -> bool {
    let mut asked = Command::new(command[0]);
    asked.args(&command[1..]).arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

/// Runs the locks of the crate without features, and the safe interface on threads, under miri, of
/// this toolchain or of an installed nightly.
fn miri() -> Result<Outcome> {
    let installed: [&[&str]; 2] =
        [&["cargo", "miri"], &["rustup", "run", "nightly", "cargo", "miri"]];
    let Some(miri) = installed.into_iter().find(|command| is_present(command)) else {
        return Ok(Skipped("no toolchain here has miri (a component of nightly)".into()));
    };
    let test = |args: &[&str]| {
        let mut command = Command::new(miri[0]);
        command.args(&miri[1..]).args(["test", "-p", "overlock"]).args(args);
        // System calls take addresses as numbers.
        command.env("MIRIFLAGS", "-Zmiri-permissive-provenance -Zmiri-many-seeds=0..4");
        run(command.env("CARGO_TARGET_DIR", folder().join("miri")))
    };
    let bare = test(&["--test", "bare"])?;
    Ok((test(&["--features", "threads,lock_api", "--test", "bare", "threads::"])? && bare).into())
}

/// Cargo, with what it builds for aarch64 apart from the rest.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.env("CARGO_TARGET_DIR", folder().join("build"));
    // The probes are linked by hand, by a linker that only accepts machine code.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo
}

/// Compiles the probes for each kind of atomic instruction and checks the orderings in them.
fn code() -> Result<Outcome> {
    let mut cargo = cargo();
    cargo.args(["build", "--locked", "--release", "-p", "overlock", "--features", "threads"]);
    if !run(cargo.args(["--target", TARGET]))? {
        return Ok(Failed);
    }
    let built = folder().join("build").join(TARGET).join("release");
    let assembly = built.join("probes.s");
    for kind in code::KINDS {
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "-Copt-level=3", "--target", TARGET]);
        rustc.arg(format!("-Ctarget-feature={}", kind.features));
        rustc.arg(format!("--extern=overlock={}", built.join("liboverlock.rlib").display()));
        rustc.arg(format!("-Ldependency={}", built.join("deps").display()));
        rustc.arg(root().join("crates/overlock/tests/code/probes.rs"));
        // Quietly, because the compiler warns that the option against function calls is unstable.
        let said = rustc.args(["--crate-type=lib", "--emit=asm", "-o"]).arg(&assembly).output()?;
        ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        match code::check(&std::fs::read_to_string(&assembly)?, kind) {
            Ok(said) => println!("{}: {said}", kind.name),
            Err(wrong) => {
                println!("{}: {wrong}", kind.name);
                return Ok(Failed);
            }
        }
    }
    Ok(Passed)
}

const LINKER: &str = "aarch64-linux-gnu-gcc";

const STARTS_ITSELF: &str = "it starts its own executable, which is not emulated then";
const FORKS_THREADS: &str = "its child starts threads, which QEMU's own state does not survive";

const SLOW: &str = "what it asks of threads takes too long where all of them are emulated";

/// Tests, by parts of their names, that are skipped under user-mode emulation, and why.
const BEYOND_QEMU: [(&str, &str); 13] = [
    ("busted::", SLOW),
    ("condvar::", SLOW),
    ("crowd::", SLOW),
    ("family::", SLOW),
    ("give_up::", SLOW),
    ("mixed_releases::", SLOW),
    ("read_write::", SLOW),
    ("signals::", SLOW),
    ("p10_waiting_", STARTS_ITSELF),
    ("a_child_without_files", STARTS_ITSELF),
    ("a_child_can_have_threads_that_wait", FORKS_THREADS),
    ("a_child_does_not_go_back_to_a_place_that_was_given_up", FORKS_THREADS),
    ("p7_numbers_of_the_dead_are_used_again", "33,000 threads take minutes"),
];

/// Runs the suites, under the emulator unless this machine is the target.
fn suites() -> Result<Outcome> {
    let mut cargo = cargo();
    cargo.args(["test", "--locked", "-p", "overlock", "--all-features", "--target", TARGET]);
    cargo.args(["--no-fail-fast", "--quiet"]);
    cargo.args(["--test", "threads", "--test", "fork_first", "--test", "bare"]);
    if cfg!(target_arch = "aarch64") {
        return Ok(run(&mut cargo)?.into());
    }
    if !is_present(&[LINKER]) {
        return Ok(Skipped(format!("there is no {LINKER} (install gcc-aarch64-linux-gnu)")));
    }
    let emulators = ["qemu-aarch64", "qemu-aarch64-static"];
    let Some(emulator) = emulators.into_iter().find(|name| is_present(&[name])) else {
        return Ok(Skipped("there is no qemu-aarch64 (install qemu-user)".into()));
    };
    let libraries = "/usr/aarch64-linux-gnu";
    if !Path::new(libraries).is_dir() {
        return Ok(Skipped(format!("no C library in {libraries} (install libc6-dev-arm64-cross)")));
    }
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{emulator} -L {libraries}");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    // GLib's own allocator is not mended after fork: a child that is forked while another thread of
    // the emulator allocates hangs in QEMU 7.2's translator. malloc is mended.
    cargo.env("G_SLICE", "always-malloc");
    cargo.arg("--");
    for (test, reason) in BEYOND_QEMU {
        println!("skipped: {test} under qemu-user: {reason}");
        cargo.args(["--skip", test]);
    }
    Ok(run(&mut cargo)?.into())
}
