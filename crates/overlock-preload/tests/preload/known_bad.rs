//! Do the conformance cases notice a faulty library?
//!
//! `tests/posix/broken.c` has one fault at a time. The case that covers it must fail with the fault
//! and pass without it. What results calls have is `differential.rs`'s question.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use crate::support::{compile, has_cxx, program, text};

/// Each fault, the program of the cases that must notice it, and these cases, of which some exist
/// on one machine only.
const FAULTS: &str = include_str!("../posix/faults.txt");

/// The rows of [`FAULTS`]: a fault, a program and a case.
fn faults() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FAULTS.trim_end().split_terminator(';').flat_map(|row| {
        let mut words = row.split_whitespace();
        let (fault, source) = (words.next().expect("a fault"), words.next().expect("a program"));
        let here = |case: &'static str| match case.split_once(':') {
            Some((machine, case)) => (machine == std::env::consts::ARCH).then_some(case),
            None => Some(case),
        };
        words.filter_map(here).map(move |case| (fault, source, case))
    })
}

/// How often a case may run with a fault until it notices it: some faults need a race.
const TRIES: usize = 5;

/// Runs one case with a fault, or with none, for at most `seconds`; returns whether it passed, and
/// its output.
fn passes(program: &Path, case: &str, library: &Path, fault: &str, seconds: u64) -> (bool, String) {
    let output = Command::new(program)
        .arg(case)
        .env("LD_PRELOAD", library)
        .env("BROKEN", fault)
        .env("POSIX_WATCHDOG_S", seconds.to_string())
        .output()
        .expect("the program was just compiled");
    (output.status.success(), text(&output))
}

/// Returns whether the case notices the fault.
///
/// # Panics
/// If it also fails without the fault.
fn notices(source: &str, case: &str, library: &Path, fault: &str) -> bool {
    let program = program(source);
    let begun = Instant::now();
    let (passed, said) = passes(program, case, library, "none", 120);
    assert!(passed, "{source} {case} fails without a fault:\n{said}");
    // Some faults make a case hang; one that is only slow must not count as that.
    let seconds = 3.max((5 * begun.elapsed()).as_secs() + 1);
    (0..TRIES).any(|_| !passes(program, case, library, fault, seconds).0)
}

/// A library that exports a call in some of its versions only.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_version_that_was_forgotten_is_noticed() {
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/posix/one_version.map");
    let script = format!("-Wl,--version-script={}", map.display());
    let library = compile("one_version.c", "one-version.so", &["-shared", "-fPIC", &script]);
    let case = "every_version_is_of_one_library";
    let (passed, said) = passes(program("versions.c"), case, &library, "none", 120);
    assert!(!passed && said.contains("pthread_cond_signal"), "{said}");
}

/// How many cases run at once: most of the time goes into waiting for those that hang.
const AT_ONCE: usize = 8;

#[test]
fn every_fault_is_noticed() {
    let library = compile("broken.c", "broken.so", &["-shared", "-fPIC"]);
    let can_run = has_cxx();
    let left = Mutex::new(faults().filter(|(_, source, _)| can_run || !source.ends_with(".cc")));
    let next = || left.lock().expect("no worker panics while it has it").next();
    let work = || -> Vec<String> {
        std::iter::from_fn(next)
            .filter(|(fault, source, case)| !notices(source, case, &library, fault))
            .map(|(fault, source, case)| format!("{source} {case} does not notice {fault}"))
            .collect()
    };
    let unnoticed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a case fails without a fault"))
            .collect()
    });
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}
