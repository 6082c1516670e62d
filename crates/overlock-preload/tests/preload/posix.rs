//! Do the pthread calls behave as POSIX specifies?
//!
//! The cases are C and C++ programs in `tests/posix/`. Each runs against libc, which validates the
//! cases, and under each lock of the library. `known_bad.rs` shows that they can fail.

use std::io::{Write, stderr};
use std::path::Path;
use std::process::Command;

use crate::support::{LOCKS, has_cxx, program, text, under};

/// Runs all cases of one source on libc and under every lock.
fn conforms(source: &str) {
    at_once(&Suite::of(source), &LOCKS);
}

/// Runs them also where the library passes everything on.
fn conforms_and_passes_on(source: &str) {
    at_once(&Suite::of(source), &[&LOCKS[..], &["none"]].concat());
}

/// Runs them under one lock after the other, for cases that create so many threads that the system
/// has no more.
fn conforms_one_by_one(source: &str) {
    let suite = Suite::of(source);
    let cases = suite.cases_on_libc();
    for lock in LOCKS {
        assert_eq!(suite.cases_under(lock), cases, "{source} on {lock}");
    }
}

/// Most cases wait most of the time, so the locks share it.
fn at_once(suite: &Suite, locks: &[&str]) {
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            locks.iter().map(|lock| (lock, scope.spawn(|| suite.cases_under(lock)))).collect();
        let cases = suite.cases_on_libc();
        for (lock, worker) in workers {
            let source = suite.source;
            let seen = worker.join().unwrap_or_else(|_| panic!("{source} on {lock}: see above"));
            assert_eq!(seen, cases, "{source} on {lock}");
        }
    });
}

/// A compiled source of cases.
struct Suite<'a> {
    source: &'a str,
    program: &'static Path,
}

impl<'a> Suite<'a> {
    fn of(source: &'a str) -> Self {
        Self { source, program: program(source) }
    }

    fn cases_on_libc(&self) -> usize {
        self.cases("libc", &mut Command::new(self.program))
    }

    fn cases_under(&self, lock: &str) -> usize {
        self.cases(lock, &mut under(lock, self.program))
    }

    /// Runs all cases; returns how many there are. What they skip goes to the terminal: the harness
    /// hides the output of a test that passes.
    fn cases(&self, who: &str, command: &mut Command) -> usize {
        let source = self.source;
        let output = command.output().expect("the program was just compiled");
        let said = text(&output);
        assert!(output.status.success(), "{source} on {who}:\n{said}");
        for line in skips(&said) {
            writeln!(stderr(), "{line} ({source} on {who})").expect("a terminal or a file");
        }
        let cases = said.lines().filter(|line| line.starts_with("ok ")).count();
        assert!(cases > 0, "{source} on {who} ran no case:\n{said}");
        cases
    }
}

/// What a program says that it skips.
fn skips(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| line.starts_with("skipped: "))
}

#[test]
fn what_a_program_skips_is_seen() {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 40000 && exec \"$0\" more_threads_than_numbers_wait"])
        .arg(program("outside.c"))
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(skips(&said).any(|line| line.contains("no room for more than")), "{said}");
}

macro_rules! sources {
    ($($name:ident: $check:ident($source:literal);)*) => {$(
        #[test]
        fn $name() {
            $check($source);
        }
    )*};
}

sources! {
    mutexes: conforms_and_passes_on("mutex.c");
    timed_locks: conforms_and_passes_on("timed.c");
    mutexes_under_stress: conforms("stress.c");
    conditions: conforms_and_passes_on("cond.c");
    cancellation: conforms_and_passes_on("cancel.c");
    fork: conforms("fork.c");
    hostile_programs: conforms_and_passes_on("hostile.c");
    robust_inheriting_and_shared: conforms_and_passes_on("special.c");
    spin_locks: conforms_and_passes_on("spin.c");
    read_write_locks: conforms_and_passes_on("rwlock.c");
    real_time_threads: conforms_and_passes_on("realtime.c");
    barriers: conforms_and_passes_on("barrier.c");
    c11: conforms_and_passes_on("c11.c");
    calls_that_stay_libcs: conforms_and_passes_on("passed_on.c");
    what_libc_tolerates: conforms("tolerated.c");
    versions_of_symbols: conforms("versions.c");
    fields_that_programs_read: conforms("fields.c");
    threads_that_cannot_queue: conforms_one_by_one("outside.c");
    sandboxes_of_known_calls: conforms("allowed.c");
    sandboxes: conforms("sandboxed.c");
    handlers_that_leave_a_wait: conforms("jumps.c");
    jumps_between_stacks: conforms("coroutines.c");
    mutexes_that_processes_share_without_saying_so: conforms("unshared.c");
}

/// As on kernels before 4.14, with pages larger than 4 KiB, and under emulators.
#[test]
fn fork_where_the_kernel_clears_no_memory() {
    let suite = Suite::of("fork.c");
    std::thread::scope(|scope| {
        for lock in LOCKS {
            let mut command = under(lock, program("without_wipe.c"));
            command.arg(suite.program);
            let suite = &suite;
            scope.spawn(move || suite.cases(&format!("{lock}, by our fork handler"), &mut command));
        }
    });
}

#[test]
fn cxx() {
    if has_cxx() {
        conforms("cxx.cc");
    }
}
