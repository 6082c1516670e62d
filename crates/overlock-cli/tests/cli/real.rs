// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command with the preload library itself, under a program whose waits are known.

use crate::support::{Said, overlock};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The library in the profile of this test. Cargo builds no `cdylib` for a test, so this function
/// does.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(crate::support::OVERLOCK).parent().unwrap();
    let profile = match folder.file_name().and_then(OsStr::to_str).unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let build = ["build", "--quiet", "--package", "overlock-preload", "--profile", profile];
    let built = Command::new(env!("CARGO"))
        .args(build)
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success());
    folder.join("liboverlock_preload.so")
});

/// The program that waits, compiled once: a test must not start a program that another test still
/// writes.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("waits");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waits.c");
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(compiled.status().expect("this needs a C compiler: install gcc").success());
    program
});

/// Returns the command's output for the program that waits in `kind`.
fn said(flags: &[&str], kind: &str) -> Said {
    let mut command = overlock(flags);
    command.env("OVERLOCK_PRELOAD", &*LIBRARY).arg("--").arg(&*PROGRAM).arg(kind);
    command.output().unwrap().into()
}

/// Returns the counters of the program under a lock.
pub(crate) fn counters(lock: &str, program_args: &[&str]) -> serde_json::Value {
    let mut command = overlock(&["run", lock, "--json"]);
    command.env("OVERLOCK_PRELOAD", &*LIBRARY).arg("--").arg(&*PROGRAM).args(program_args);
    let said: Said = command.output().unwrap().into();
    let record = said.stderr.lines().find(|line| line.starts_with('{')).expect("counters");
    serde_json::from_str(record).expect(record)
}

#[test]
fn counters_say_where_the_program_waited() {
    said(&["run"], "mutex").ends(0, "mutex.locks_contended");
    said(&["run"], "rwlock").ends(0, "unreplaced.rwlock_waits       1");
    said(&["run", "none"], "rwlock").ends(0, "unreplaced.rwlock_waits       1");
    said(&["run"], "none").ends(0, "(no lock was ever contended)");
}

/// The program sees its second thread asleep at the mutex, and holds it for 20 ms more.
#[test]
fn the_longest_stall_at_a_mutex_is_counted() {
    for lock in ["hybrid", "queued", "ticket", "test-and-set", "none"] {
        for kind in ["mutex", "recursive"] {
            let record = counters(lock, &[kind, "20"]);
            let longest = record["mutex"]["longest_stall_ns"].as_u64().unwrap_or_default();
            assert!(longest >= 20_000_000, "{lock}, {kind}: {record}");
        }
    }
}

#[test]
fn no_verdict_where_no_lock_of_ours_is_waited_for() {
    let flags = ["compare", "--locks", "libc,hybrid", "--runs", "6"];
    let rwlock = said(&flags, "rwlock");
    rwlock.ends(0, "but for read-write locks (1 waits)");
    let none = said(&flags, "none");
    none.ends(0, "no thread of the program ever waited");
    for said in [rwlock, none] {
        assert!(said.stdout.contains("No verdict: no thread waited"), "{said:?}");
    }
    let mutex = said(&flags, "mutex");
    assert!(!mutex.stderr.contains("waited"), "{mutex:?}");
    assert!(!mutex.stdout.contains("no thread waited"), "{mutex:?}");
}

/// The counters of the real library are in the records.
#[test]
fn a_report_reads_a_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let [records, page] = ["c.jsonl", "c.html"].map(|name| folder.path().join(name));
    let flags = ["compare", "--locks", "libc,hybrid", "--runs", "1", "--out"];
    said(&[&flags[..], &[records.to_str().unwrap()]].concat(), "mutex").ends(0, "");
    let text = std::fs::read_to_string(&records).unwrap();
    assert!(text.contains("\"longest_stall_ns\":"), "{text}");
    let report = ["report", records.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let said: Said = overlock(&report).output().unwrap().into();
    assert_eq!((said.code, said.stderr.contains("broken")), (Some(0), false), "{said:?}");
}
