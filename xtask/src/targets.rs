//! `cargo xtask targets`: what the crates promise of machines, and of ways to link, other than this
//! machine's.
//!
//! A target that the toolchain lacks is added by `rustup`, unless that is forbidden, and skipped
//! visibly where it can't be. Everything is built beside the other builds, and disturbs none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::peers::package;
use crate::{root, run, target};

const NONE: &str = "x86_64-unknown-none";
/// Programs of this machine's kernel with addresses of 32 bits, which need no libraries to link.
const RUNS: &str = "i686-unknown-linux-musl";
/// Suites that run there; the others know glibc, or model a machine of 64 bits.
const SUITES: [&str; 6] =
    ["contract::", "conformance::", "family::", "refresh::", "give_up::", "fork::"];
/// Those that wait until a time.
const TIMED: [&str; 2] = ["contract::", "give_up::"];

/// What makes libc's `time_t` as wide as the kernel's on machines of 32 bits, as newer
/// distributions build it.
const WIDE: &str = "--cfg=libc_unstable_gnu_time_bits=\"64\" --cfg=libc_unstable_musl_v1_2_3";

const THREADS: &[&str] = &["overlock", "overlock-parking-lot", "overlock-spin"];
const C: &[&str] = &["overlock", "overlock-parking-lot", "overlock-spin", "overlock-c"];
const KERNEL: &[&str] = &["overlock", "overlock-spin"];

/// Targets, the crates that compile there, and whether they have threads.
const CHECKED: [(&str, &[&str], bool); 7] = [
    ("i686-unknown-linux-gnu", C, true),
    ("armv7-unknown-linux-gnueabihf", C, true),
    ("aarch64-linux-android", THREADS, true),
    ("x86_64-pc-windows-gnu", &["overlock-parking-lot"], false),
    ("riscv32imac-unknown-none-elf", KERNEL, false),
    ("thumbv7em-none-eabi", KERNEL, false),
    (NONE, &["overlock", "overlock-spin", "overlock-vcpu"], false),
];

/// Runs everything. Also returns true if it had to skip.
pub(crate) fn check(may_install: bool) -> Result<bool> {
    let mut sound = linked()? & patched()?;
    for (target, crates, has_threads) in CHECKED {
        if !is_there(target, may_install) {
            continue;
        }
        let widths =
            if target.ends_with("linux-gnu") || target.contains("gnueabi") { 2 } else { 1 };
        for flags in ["", WIDE].into_iter().take(widths) {
            let mut check = cargo("check", target, flags)?;
            check.args(crates.iter().flat_map(|name| ["-p", name]));
            if has_threads {
                check.args([
                    "--features",
                    "overlock/threads,overlock/lock_api,overlock-spin/threads",
                ]);
            }
            sound &= run(&mut check)?;
        }
    }
    if cfg!(target_arch = "x86_64") && is_there(RUNS, may_install) {
        for (flags, suites) in [("", &SUITES[..]), (WIDE, &TIMED[..])] {
            for (what, names) in [(&["--lib"][..], &[][..]), (&["--test", "threads"], suites)] {
                let mut test = cargo("test", RUNS, flags)?;
                test.args(["-p", "overlock", "--features", "threads,lock_api"]).args(what);
                sound &= run(test.arg("--").args(names))?;
            }
        }
    }
    Ok(oldest(may_install)? && sound)
}

/// Compiles the crates of locks with the oldest compiler that they promise.
fn oldest(may_install: bool) -> Result<bool> {
    let text = fs::read_to_string(root().join("crates/overlock/Cargo.toml"))?;
    let (_, version) = text.split_once("rust-version = \"").context("it names a compiler")?;
    let version = version.split('"').next().unwrap_or_default();
    let rustup = |args: &[&str]| {
        let said = Command::new("rustup").args(args).output();
        said.is_ok_and(|said| said.status.success())
    };
    let is_there = rustup(&["run", version, "rustc", "--version"])
        || may_install && rustup(&["toolchain", "install", "--profile", "minimal", version]);
    if !is_there {
        println!("skipped: Rust {version}: it is not here (rustup toolchain install {version})");
        return Ok(true);
    }
    let mut cargo = Command::new("rustup");
    cargo.args(["run", version, "cargo", "check", "--quiet", "--locked", "--target-dir"]);
    cargo.arg(folder()?.join("oldest")).args(THREADS.iter().flat_map(|name| ["-p", name]));
    cargo.args(["--features", "overlock/threads,overlock/lock_api"]);
    // This cargo has set them for its own compiler.
    run(cargo.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN"))
}

/// Whether the toolchain has the library of a target.
fn has_target(name: &str) -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    sysroot.is_ok_and(|out| {
        let sysroot = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        sysroot.join("lib/rustlib").join(name).join("lib").exists()
    })
}

/// Whether the toolchain has a target, now at the latest.
pub(crate) fn is_there(target: &str, may_install: bool) -> bool {
    let add = || {
        let added = Command::new("rustup").args(["target", "add", target]).output();
        added.is_ok_and(|added| added.status.success())
    };
    let found = has_target(target) || may_install && add();
    if !found {
        println!(
            "skipped: {target}: the toolchain has no such target (rustup target add {target})"
        );
    }
    found
}

fn folder() -> Result<PathBuf> {
    Ok(target()?.join("targets"))
}

fn cargo(verb: &str, target: &str, flags: &str) -> Result<Command> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([verb, "--quiet", "--locked", "--target", target, "--target-dir"]).arg(folder()?);
    cargo.env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(cargo)
}

/// What a program does with the library that it calls `NAME`: its threads contend for each lock.
const USES: &str = "
    let shared = std::sync::Arc::new((NAME::ThreadMutex::new(0), NAME::ThreadRwLock::new(0)));
    let add = |all: std::sync::Arc<(NAME::ThreadMutex<u32>, NAME::ThreadRwLock<u32>)>| {
        for _ in 0..10_000 {
            *all.0.lock() += 1;
            *all.1.write() += 1;
            assert!(*all.1.read() > 0);
        }
    };
    let threads: Vec<_> = (0..4).map(|_| {
        let all = shared.clone();
        std::thread::spawn(move || add(all))
    }).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((*shared.0.lock(), *shared.1.read()), (40_000, 40_000));
";

/// Programs that link the crate in unusual ways: twice, in two versions that cargo takes for
/// different crates; and as part of a shared library of Rust's, with which the program is linked.
fn linked() -> Result<bool> {
    let ours = |path: &Path| {
        format!("package = \"overlock\", path = {path:?}, features = [\"threads\", \"lock_api\"]")
    };
    let crates = root().join("crates");
    let here = ours(&crates.join("overlock"));
    let twice = folder()?.join("twice");
    let next = next_version(&folder()?.join("next"))?;
    package(&twice, &format!("one = {{ {here} }}\ntwo = {{ {} }}\n", ours(&next)))?;
    let uses = [USES.replace("NAME", "one"), USES.replace("NAME", "two")];
    let sound = runs(&twice, &format!("{{{}}} {{{}}}", uses[0], uses[1]), "")?;

    let shared = folder()?.join("shared");
    package(&shared, &format!("overlock = {{ {here} }}\n\n[lib]\ncrate-type = [\"dylib\"]\n"))?;
    fs::write(shared.join("src/lib.rs"), "pub use overlock::*;\n")?;
    let user = folder()?.join("user");
    package(&user, &format!("shared = {{ path = {shared:?} }}\n"))?;
    Ok(runs(&user, &USES.replace("NAME", "shared"), "-C prefer-dynamic")? && sound)
}

/// A program that asks for every feature of `parking_lot` and of `spin` that ours have: it builds
/// on ours once `overlock-patch add` was run, says what ours can't do, and `remove` leaves no
/// trace.
fn patched() -> Result<bool> {
    let all = "\"arc_lock\", \"owning_ref\", \"serde\", \"send_guard\"";
    let wanted = |more| {
        format!(
            "parking_lot = {{ version = \"0.12\", features = [{all}{more}] }}\n\
             spin = {{ version = \"0.10\", features = [\"std\"] }}\n"
        )
    };
    let patch = |verb: &str, program: &Path| {
        let mut patch = Command::new(root().join("compat/patch/overlock-patch"));
        patch.arg(verb).current_dir(program).status()
    };
    let (program, other) = (folder()?.join("patched"), folder()?.join("undetected"));
    package(&program, &wanted(""))?;
    let manifest = program.join("Cargo.toml");
    let before = fs::read(&manifest)?;
    let added = patch("add", &program)?.success();
    let lines = fs::read_to_string(&manifest)?.matches("package = ").count();
    ensure!(lines == 2, "of the five patches two are of use, and {lines} are in {manifest:?}");
    let does = "let lock = std::sync::Arc::new(parking_lot::Mutex::new(spin::Mutex::new(1)));\n\
                let guard = lock.lock_arc();\n\
                std::thread::spawn(move || *guard.lock() += 1).join().unwrap();\n\
                assert_eq!(*lock.lock().lock(), 2);";
    let sound = added && runs(&program, does, "")?;
    patch("remove", &program)?;
    ensure!(before == fs::read(&manifest)?, "overlock-patch left something in {manifest:?}");

    let neither = folder()?.join("neither");
    package(&neither, "")?;
    let before = fs::read(neither.join("Cargo.toml"))?;
    let says_so = !patch("add", &neither)?.success();
    let is_same = before == fs::read(neither.join("Cargo.toml"))?;
    ensure!(says_so && is_same, "overlock-patch has changed a program that has neither crate");

    package(&other, &wanted(", \"deadlock_detection\""))?;
    patch("add", &other)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--target-dir"]).arg(folder()?.join("linked"));
    let said = cargo.current_dir(&other).output()?;
    let says = String::from_utf8_lossy(&said.stderr).contains("can't detect deadlocks");
    ensure!(!said.status.success() && says, "deadlock_detection is built without a word");
    Ok(sound)
}

/// The sources of `overlock` as if they were the next version.
fn next_version(to: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    let from = root().join("crates/overlock");
    for part in ["README.md", "src"] {
        let copied = Command::new("cp").arg("-r").arg(from.join(part)).arg(to).status()?;
        ensure!(copied.success(), "{part} can't be copied");
    }
    // What it takes from the workspace, it can't take from there.
    let text = fs::read_to_string(from.join("Cargo.toml"))?;
    let (text, _) = text.split_once("[dev-dependencies]").context("it has tests")?;
    let own = text.lines().filter(|line| !line.ends_with(".workspace = true")).collect::<Vec<_>>();
    let own = own.join("\n").replacen('\n', "\nversion = \"1000.0.0\"\nedition = \"2024\"\n", 1);
    fs::write(to.join("Cargo.toml"), format!("{own}\n[workspace]\n"))?;
    Ok(to.to_owned())
}

fn runs(program: &Path, main: &str, flags: &str) -> Result<bool> {
    fs::remove_file(program.join("src/lib.rs"))?;
    fs::write(program.join("src/main.rs"), format!("fn main() {{\n{main}\n}}\n"))?;
    println!("+ cargo run in {}", program.display());
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--offline", "--target-dir"]).arg(folder()?.join("linked"));
    // The copy does not have the workspace's lints.
    let flags = format!("-Aunexpected_cfgs {flags}");
    cargo.env("RUSTFLAGS", flags.trim_end()).env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(cargo.current_dir(program).status()?.success())
}
