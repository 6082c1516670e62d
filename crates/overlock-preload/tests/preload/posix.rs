// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the pthread calls behave as POSIX specifies?
//!
//! The cases are C and C++ programs in `tests/posix/`. Each runs against libc first, which
//! validates the cases, and then under each lock of the library. `known_bad.rs` shows that they can
//! fail.

use std::process::Command;

use crate::support::{LOCKS, compile, text, under};

/// Runs all cases of one source on libc and under every lock.
fn conforms(source: &str) {
    conforms_under(source, &LOCKS);
}

/// Runs them also where the library passes everything on.
fn conforms_and_passes_on(source: &str) {
    conforms_under(source, &[&LOCKS[..], &["none"]].concat());
}

fn conforms_under(source: &str, locks: &[&str]) {
    let program = compile(source, &source.replace('.', "-"), &[]);
    let run = |who: &str, command: &mut Command| {
        let output = command.output().expect("the program was just compiled");
        assert!(output.status.success(), "{source} on {who}:\n{}", text(&output));
        let cases = text(&output).lines().filter(|line| line.starts_with("ok ")).count();
        assert!(cases > 0, "{source} on {who} ran no case:\n{}", text(&output));
        cases
    };
    let cases = run("libc", &mut Command::new(&program));
    // One after the other: some cases create so many threads that the system has no more.
    for lock in locks {
        assert_eq!(run(lock, &mut under(lock, &program)), cases, "{source} on {lock}");
    }
}

#[test]
fn mutexes() {
    conforms_and_passes_on("mutex.c");
}

#[test]
fn timed_locks() {
    conforms_and_passes_on("timed.c");
}

#[test]
fn mutexes_under_stress() {
    conforms("stress.c");
}

#[test]
fn conditions() {
    conforms_and_passes_on("cond.c");
}

#[test]
fn cancellation() {
    conforms_and_passes_on("cancel.c");
}

#[test]
fn fork() {
    conforms("fork.c");
}

#[test]
fn robust_inheriting_and_shared() {
    conforms_and_passes_on("special.c");
}

#[test]
fn spin_locks() {
    conforms_and_passes_on("spin.c");
}

#[test]
fn calls_that_stay_libcs() {
    conforms_and_passes_on("passed_on.c");
}

#[test]
fn cxx() {
    conforms("cxx.cc");
}

#[test]
fn what_libc_tolerates() {
    conforms("tolerated.c");
}

#[test]
fn versions_of_symbols() {
    conforms("versions.c");
}

#[test]
fn fields_that_programs_read() {
    conforms("fields.c");
}

#[test]
fn threads_that_cannot_queue() {
    conforms("outside.c");
}

#[test]
fn handlers_that_leave_a_wait() {
    conforms("jumps.c");
}
