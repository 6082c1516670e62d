// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the locks work in C and C++ programs, under every compiler and its strictest warnings?

use std::path::Path;
use std::process::Command;

use crate::support::{self, C, CXX, Language};

/// Compiles and runs a program with all compilers of its language.
#[track_caller]
fn works(language: Language, source: &str, library: &Path) {
    for compiler in language.compilers() {
        let folder = tempfile::tempdir().expect("a folder for the program");
        let source = support::package().join(source);
        let program = compiler.program(&source, library, &[], folder.path());
        let out = support::run(&Command::new(program));
        assert!(out.status.success(), "{compiler:?}: {out:?}");
    }
}

#[test]
fn threads_of_a_c_program_share_every_lock() {
    works(C, "tests/c/locks.c", &support::static_library());
}

#[test]
fn the_program_would_notice_a_lock_that_does_nothing() {
    for compiler in C.compilers() {
        let folder = tempfile::tempdir().expect("a folder for the program");
        let source = support::package().join("tests/c/locks.c");
        let library = support::static_library();
        let program = compiler.program(&source, &library, &["-DBROKEN"], folder.path());
        let out = support::run(&Command::new(program));
        assert_eq!(out.status.code(), Some(1), "{compiler:?}: {out:?}");
        let message = String::from_utf8_lossy(&out.stderr);
        assert!(message.contains("not so: sum == "), "{compiler:?}: {message}");
    }
}

#[test]
fn nobody_halts_when_waiting_is_off() {
    works(C, "tests/c/spins.c", &support::static_library());
}

#[test]
fn processes_share_a_lock_in_mapped_memory() {
    works(C, "tests/c/shared.c", &support::static_library());
}

#[test]
fn the_standard_library_s_guards_take_the_cpp_classes() {
    works(CXX, "tests/c/locks.cpp", &support::static_library());
}

#[test]
fn rust_and_c_take_the_same_lock() {
    works(C, "examples/both.c", &support::built().join("../examples/libboth.a"));
}
