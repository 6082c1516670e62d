//! The cost of the uncontended paths on x86-64, in instructions executed and bytes of code.
//!
//! The probes (`code/probes.rs`) are functions around one verb of one lock, compiled as for a user
//! of the library, for any x86-64. Single steps through a call, including its return, count the
//! instructions (`support/step.rs`). The bytes are those of the whole function, with its jump to
//! the slow half but without that half. Timing would show the same, but only on a quiet machine.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::skip::skip;
use crate::support::step;

/// The most that one call may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    instructions: usize,
    bytes: usize,
}

const fn cost(instructions: usize, bytes: usize) -> Cost {
    Cost { instructions, bytes }
}

/// The verbs, in the order of the columns of [`BUDGET`].
const VERBS: [&str; 3] = ["lock", "try_lock", "unlock"];

/// The most that each verb of each lock may cost: what rustc 1.95 made of it. A commit that raises
/// a number says what the increase buys.
///
/// The releases of `Threads` are restartable sequences, and a single step cuts each of them off:
/// the count covers the sequence up to its store, its abort, and the locked release after it.
const BUDGET: [(&str, [Cost; 3]); 10] = [
    ("tas_native", [cost(5, 21), cost(8, 22), cost(2, 7)]),
    ("tas_threads", [cost(5, 21), cost(8, 22), cost(5, 13)]),
    ("ticket_native", [cost(11, 53), cost(12, 57), cost(2, 5)]),
    ("ticket_threads", [cost(11, 53), cost(12, 57), cost(20, 116)]),
    ("narrow_native", [cost(12, 51), cost(13, 55), cost(2, 4)]),
    ("narrow_threads", [cost(12, 51), cost(13, 55), cost(9, 37)]),
    ("queued_native", [cost(5, 21), cost(11, 82), cost(2, 4)]),
    ("queued_threads", [cost(12, 53), cost(13, 57), cost(13, 84)]),
    ("hybrid_native", [cost(5, 21), cost(11, 82), cost(2, 4)]),
    ("hybrid_threads", [cost(12, 53), cost(13, 57), cost(13, 84)]),
];

/// The same for an uncontended acquisition where there are no restartable sequences, so that the
/// fast half refuses: with the beginning of the slow half.
const UNARMED: [(&str, usize); 2] = [("queued_threads", 12), ("hybrid_threads", 12)];

fn succeeds(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{said}", out.status);
    String::from_utf8(out.stdout).expect("text")
}

/// The probes as a shared library, optimised whatever the profile of this test.
fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("code-budget");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--release", "--features", "threads"]);
        // The linker below may understand machine code only.
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
        // The table was not made with settings meant for other builds.
        for set in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(set);
        }
        succeeds(cargo.arg("--target-dir").arg(&target).current_dir(package));
        let built = target.join("release");
        let library = built.join("libprobes.so");
        let named = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        rustc.args(["--edition=2024", "--crate-type=cdylib", "-Copt-level=3", "-Cpanic=abort"]);
        rustc.arg("--extern").arg(named("overlock", built.join("liboverlock.rlib")));
        rustc.arg("-L").arg(named("dependency", built.join("deps")));
        succeeds(rustc.arg(package.join("tests/code/probes.rs")).arg("-o").arg(&library));
        library
    });
    &LIBRARY
}

/// The size of each function in bytes, or `None` without binutils.
fn sizes() -> Option<BTreeMap<String, usize>> {
    Command::new("nm").arg("--version").output().ok()?;
    let listing = succeeds(Command::new("nm").args(["-S", "--defined-only"]).arg(library()));
    let size = |line: &str| {
        let [_, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((name.to_owned(), usize::from_str_radix(size, 16).expect("a size in hex")))
    };
    Some(listing.lines().filter_map(size).collect())
}

fn probe(name: &str) -> step::Probe {
    static HANDLE: LazyLock<usize> = LazyLock::new(|| {
        let path = CString::new(library().as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: the library's constructors register a fork handler and arm restartable sequences;
        // it is never closed.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        // SAFETY: after a failure there is a message, which is valid until the next call.
        assert!(!handle.is_null(), "{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        handle as usize
    });
    let symbol = CString::new(name).expect("a name");
    // SAFETY: the handle is never closed.
    let found = unsafe { libc::dlsym(*HANDLE as *mut libc::c_void, symbol.as_ptr()) };
    assert!(!found.is_null(), "there is no probe {name}");
    // SAFETY: a probe takes the address of a lock, and its result register can be ignored.
    unsafe { std::mem::transmute::<*mut libc::c_void, step::Probe>(found) }
}

/// How many instructions a verb of an uncontended lock executes, or `None` if this process may not
/// trace.
fn instructions(lock: &str, verb: &str) -> Option<usize> {
    // An unlocked lock is zeros, at most four bytes.
    let mut word = 0_u32;
    if verb == "unlock" {
        // SAFETY: the word is an unlocked lock.
        unsafe { probe(&format!("{lock}_lock"))(&raw mut word) };
        assert_ne!(word, 0, "{lock} is locked");
    }
    step::executed(probe(&format!("{lock}_{verb}")), &raw mut word)
}

/// What a verb of a lock costs; zero for what can't be measured here.
fn measure(lock: &str, verb: &str, sizes: Option<&BTreeMap<String, usize>>) -> Cost {
    let bytes = sizes.map_or(0, |sizes| sizes[&format!("{lock}_{verb}")]);
    Cost { instructions: instructions(lock, verb).unwrap_or(0), bytes }
}

fn check(name: &str, seen: Cost, budget: Cost) -> Result<(), String> {
    if seen.instructions <= budget.instructions && seen.bytes <= budget.bytes {
        return Ok(());
    }
    Err(format!("{name}: {seen:?}, budget {budget:?}"))
}

#[test]
fn uncontended_paths_keep_to_their_budget() {
    let sizes = sizes();
    if sizes.is_none() {
        skip("the bytes of the uncontended paths: there is no nm (install binutils)");
    }
    if instructions("tas_native", "lock").is_none() {
        skip("the instructions of the uncontended paths: this process may not trace its children");
    }
    let mut wrong = String::new();
    for (lock, budget) in BUDGET {
        for (verb, budget) in VERBS.into_iter().zip(budget) {
            let seen = measure(lock, verb, sizes.as_ref());
            if let Err(error) = check(&format!("{lock}_{verb}"), seen, budget) {
                writeln!(wrong, "{error}").expect("a string takes all");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn without_sequences_a_free_lock_costs_no_stack_frame() {
    if instructions("tas_native", "lock").is_none() {
        return skip("locks without sequences: this process may not trace its children");
    }
    // Only a new process can be without them.
    let sequences = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    if std::env::var(sequences.0).as_deref() != Ok(sequences.1) {
        let mut alone = Command::new(std::env::current_exe().expect("this test"));
        alone.args([
            "--exact",
            "code_budget::without_sequences_a_free_lock_costs_no_stack_frame",
            "--nocapture",
        ]);
        succeeds(alone.env(sequences.0, sequences.1));
        return;
    }
    for (lock, budget) in UNARMED {
        let seen = instructions(lock, "lock");
        assert!(seen.is_none_or(|seen| seen <= budget), "{lock}: {seen:?}, budget {budget}");
    }
}

#[test]
fn a_fatter_path_exceeds_the_budget() {
    let (lock, [budget, ..]) = BUDGET[BUDGET.len() - 1];
    assert_eq!(lock, "hybrid_threads");
    let seen = measure("fat", "lock", sizes().as_ref());
    // Checks each half on its own, where it could be measured.
    let (instructions, bytes) = (seen.instructions, seen.bytes);
    if instructions != 0 {
        assert!(check("fat", Cost { bytes: 0, ..seen }, budget).is_err(), "{seen:?}");
    }
    if bytes != 0 {
        assert!(check("fat", Cost { instructions: 0, ..seen }, budget).is_err(), "{seen:?}");
    }
}
