//! Do the locks work in C and C++ programs, under every compiler and its strictest warnings?

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{self, C, CXX, Compiler, Language};

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

macro_rules! work {
    ($($name:ident: $language:ident, $source:literal;)*) => {$(
        #[test]
        fn $name() {
            works($language, $source, &support::static_library());
        }
    )*};
}

work! {
    threads_of_a_c_program_share_every_lock: C, "tests/c/locks.c";
    threads_of_a_c_program_read_write_and_wait: C, "tests/c/waits.c";
    // A deadline that is met late would outlast the time a program has here.
    deadlines_are_on_the_programs_clock: C, "tests/c/clocks.c";
    no_thread_halts_when_waiting_is_off: C, "tests/c/spins.c";
    processes_share_a_lock_in_mapped_memory: C, "tests/c/shared.c";
    the_standard_library_s_guards_take_the_cpp_classes: CXX, "tests/c/locks.cpp";
    a_lock_that_is_unlocked_while_it_is_free_stays_free: C, "tests/c/free.c";
}

#[test]
fn a_writer_that_only_reads_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let source = support::package().join("tests/c/waits.c");
    let library = support::static_library();
    let program = C.compilers()[0].program(&source, &library, &["-DBROKEN"], folder.path());
    let out = support::run(&Command::new(program));
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("not so: one == other"), "{out:?}");
}

#[track_caller]
fn faulty_header(from: &str, to: &str) -> tempfile::TempDir {
    let header = support::package().join("include/overlock.h");
    let header = std::fs::read_to_string(header).expect("the header");
    assert!(header.contains(from), "the header has no {from}");
    let folder = tempfile::tempdir().expect("a folder for the header");
    let faulty = folder.path().join("overlock.h");
    std::fs::write(&faulty, header.replacen(from, to, 1)).expect("a file for the header");
    folder
}

/// Checks that a fault in the header makes a program fail.
#[track_caller]
fn finds(language: Language, source: &str, from: &str, to: &str) {
    let folder = faulty_header(from, to);
    // This folder is searched before that of the real header.
    let include = ["-iquote", folder.path().to_str().expect("a path in UTF-8")];
    let Some(&compiler) = language.compilers().first() else { return };
    let source = support::package().join(source);
    let library = support::static_library();
    let program = compiler.program(&source, &library, &include, folder.path());
    let out = support::run(&Command::new(program));
    assert_eq!(out.status.code(), Some(1), "{compiler:?}: {out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("not so: "), "{out:?}");
}

/// A lock that any thread takes at once.
const TAKEN: &str = "return __atomic_compare_exchange_n(word, &free, take";
const TAKEN_AT_ONCE: &str = "return free == 0 || __atomic_compare_exchange_n(word, &free, take";

#[test]
fn every_program_notices_a_lock_that_any_thread_takes() {
    finds(C, "tests/c/locks.c", TAKEN, TAKEN_AT_ONCE);
    finds(C, "tests/c/spins.c", TAKEN, TAKEN_AT_ONCE);
    finds(C, "tests/c/shared.c", TAKEN, TAKEN_AT_ONCE);
    finds(CXX, "tests/c/locks.cpp", TAKEN, TAKEN_AT_ONCE);
    finds(C, "tests/c/free.c", TAKEN, TAKEN_AT_ONCE);
}

#[test]
fn an_unlock_that_does_not_look_is_noticed() {
    finds(C, "tests/c/free.c", "if (!(before & take)) {", "if (before == ~take) {");
    let looks = "&lock->tail, __ATOMIC_RELAXED) == (before & ~OL_TICKET_SLOW)";
    let odd = "&lock->tail, __ATOMIC_RELAXED) == (before | OL_TICKET_SLOW)";
    finds(C, "tests/c/free.c", looks, odd);
    finds(C, "tests/c/free.c", "else if (before == 0)", "else if (before == ~0u)");
}

/// Runs `tests/c/short_times.c`, with the header of another folder if there is one.
fn with_short_times(compiler: Compiler, header: Option<&Path>) -> Output {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let [source, times] =
        ["tests/c/short_times.c", "tests/c/short"].map(|path| support::package().join(path));
    let times = format!("-I{}", times.display());
    let header = header.map(|folder| format!("-iquote{}", folder.display()));
    let flags: Vec<_> = header.as_deref().into_iter().chain([times.as_str()]).collect();
    let program = compiler.program(&source, &support::static_library(), &flags, folder.path());
    support::run_faulty(&Command::new(program))
}

#[test]
fn a_program_whose_time_t_has_32_bits_times_out() {
    for compiler in C.compilers() {
        let out = with_short_times(compiler, None);
        assert!(out.status.success(), "{compiler:?}: {out:?}");
    }
    let own = "? at->tv_nsec : -1";
    let odd = "? *(const int64_t *)(const void *)at : -1";
    let out = with_short_times(C.compilers()[0], Some(faulty_header(own, odd).path()));
    assert_eq!(out.status.code(), Some(1), "a header that reads numbers of another size: {out:?}");
}

fn functions(program: &Path) -> Vec<(u64, String)> {
    let listing = support::succeeds(Command::new("nm").args(["-n", "--defined-only"]).arg(program));
    let function = |line: &str| {
        let mut parts = line.split_whitespace();
        let address = u64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().filter(|kind| kind.eq_ignore_ascii_case("t"))?;
        Some((address, parts.next()?.to_owned()))
    };
    listing.lines().filter_map(function).collect()
}

/// Runs `tests/c/places.c` and returns what it says, and the functions that it names.
fn places(check: &str, flags: &[&str]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let source = support::package().join("tests/c/places.c");
    let library = support::static_library();
    let program = C.compilers()[0].program(&source, &library, flags, folder.path());
    let out = support::run(Command::new(&program).env("OVERLOCK_CHECK", check));
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stderr).expect("text");
    let functions = functions(&program);
    let by = format!("by {}+0x", program.display());
    let offset = |line: &str| {
        let rest = line.split_once(&by)?.1;
        u64::from_str_radix(rest.split_whitespace().next()?, 16).ok()
    };
    let name = |offset| {
        let after = functions.partition_point(|(address, _)| *address <= offset);
        functions[after - 1].1.trim_end_matches(".cold").to_owned()
    };
    let named = said.lines().filter_map(offset).map(name).collect();
    (said, named)
}

#[test]
fn unlocks_of_free_locks_are_reported_with_their_place() {
    for check in ["", "0"] {
        let (said, named) = places(check, &[]);
        assert_eq!((said.lines().count(), named.len()), (1, 0), "{said}");
        assert!(said.contains("OVERLOCK_CHECK=1"), "{said}");
    }
    let (said, named) = places("1", &[]);
    let locks = ["hybrid", "queued", "ticket", "test_and_set", "shared"];
    let expected = locks.iter().cycle().map(|lock| format!("{lock}_unlocks"));
    assert_eq!(named, expected.take(16).collect::<Vec<_>>(), "{said}");
    assert_eq!(said.lines().count(), 16, "{said}");
}

#[test]
fn a_place_that_is_the_caller_s_is_noticed() {
    // The compiler turns a call at the end of a function into a jump.
    let folder = faulty_header("__asm__ volatile(\"\");", "");
    let (said, named) = places("1", &["-iquote", folder.path().to_str().expect("UTF-8")]);
    assert!(named.iter().any(|name| name == "main"), "{said}");
}

/// Builds and runs a program under the thread sanitizer; returns nothing where it does not work.
fn sanitized(defines: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let program = folder.path().join("program");
    let mut compiler = C.compilers()[0].command();
    compiler.args(["-D_POSIX_C_SOURCE=200809L", "-g", "-fsanitize=thread", "-pthread"]);
    compiler.args(defines).arg(support::package().join("tests/c/tsan.c"));
    compiler.arg(support::static_library()).args(support::private_libs()).arg("-o").arg(&program);
    if !compiler.output().expect("a compiler that was there before").status.success() {
        support::skip("the thread sanitizer: its library is not installed");
        return None;
    }
    // Its shadow memory has no place for a program that the kernel has loaded at an unusual
    // address.
    let mut command = Command::new("setarch");
    let out = command.args(["-R", "timeout", "120"]).arg(&program).output().expect("util-linux");
    if String::from_utf8_lossy(&out.stderr).contains("FATAL: ThreadSanitizer") {
        support::skip("the thread sanitizer: it does not run on this kernel");
        return None;
    }
    Some(out)
}

#[test]
fn the_thread_sanitizer_sees_what_locks_order() {
    if let Some(out) = sanitized(&[]) {
        assert!(out.status.success(), "{out:?}");
    }
    // Without the header's annotations it reports races that do not exist.
    if let Some(out) = sanitized(&["-DOL_DETAIL_ACQUIRED(lock)=((void)(lock))"]) {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("data race"), "{out:?}");
    }
}

/// Runs `tests/c/sandboxed.c`, where one system call is killed for or refused.
fn sandboxed(call: &str, action: &str, tunables: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let source = support::package().join("tests/c/sandboxed.c");
    let program = C.compilers()[0].program(&source, &support::static_library(), &[], folder.path());
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).args([call, action]).env("GLIBC_TUNABLES", tunables);
    command.output().expect("coreutils")
}

#[test]
fn the_locks_make_the_system_calls_that_the_readme_names() {
    let calls = [("none", "kill", ""), ("membarrier", "refuse", "")];
    // Where libc registers no restartable sequences, the locks have none.
    for (call, action, tunables) in
        calls.into_iter().chain([("membarrier", "kill", "glibc.pthread.rseq=0")])
    {
        let out = sandboxed(call, action, tunables);
        assert!(out.status.success(), "{call} {action} {tunables}: {out:?}");
    }
    let out = sandboxed("futex", "kill", "");
    // `timeout` ends as the program did.
    assert_eq!(out.status.signal(), Some(libc::SIGSYS), "{out:?}");
}

/// Runs a program that unloads a library while a thread that has used its locks lives on. The
/// library is linked with these options too.
fn outlives(compiler: Compiler, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let (program, library) = (folder.path().join("program"), folder.path().join("plugin.so"));
    let source = support::package().join("tests/c/unload.c");
    support::succeeds(compiler.command().args(["-pthread", "-o"]).arg(&program).arg(source));
    let keeps = folder.path().join("keeps.c");
    let text = "int __wrap_pthread_key_delete(unsigned key); \
                int __wrap_pthread_key_delete(unsigned key) { return (int)(key - key); }\n";
    std::fs::write(&keeps, text).expect("a file for the source");
    let mut link = compiler.command();
    link.args(["-shared", "-fPIC", "-Wl,-u,ol_ticket_lock_slow", "-o"]).arg(&library).arg(keeps);
    link.arg(support::static_library()).args(support::private_libs());
    support::succeeds(link.args(options));
    let mut command = Command::new("timeout");
    command.arg("60").arg(&program).arg(&library).output().expect("coreutils")
}

/// The library of this package is never unloaded; one that contains it can be.
#[test]
fn a_thread_outlives_a_library_that_contains_the_locks() {
    for compiler in C.compilers() {
        let out = outlives(compiler, &[]);
        assert!(out.status.success(), "{compiler:?}: {out:?}");
    }
}

#[test]
fn a_library_that_leaves_its_key_behind_is_noticed() {
    let out = outlives(C.compilers()[0], &["-Wl,--wrap=pthread_key_delete"]);
    assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
}

fn rust_half() -> PathBuf {
    support::built().join("../examples/libboth.a")
}

#[test]
fn rust_and_c_take_the_same_lock() {
    works(C, "examples/both.c", &rust_half());
}

#[test]
fn a_half_that_takes_another_s_lock_is_noticed() {
    let header = faulty_header(TAKEN, TAKEN_AT_ONCE);
    let folder = tempfile::tempdir().expect("a folder for the program");
    let source = support::package().join("examples/both.c");
    let include = ["-iquote", header.path().to_str().expect("a path in UTF-8")];
    let program = C.compilers()[0].program(&source, &rust_half(), &include, folder.path());
    let out = support::run_faulty(&Command::new(program));
    // It counts wrong, or two holders' releases leave it waiting until `timeout` ends it.
    assert!(matches!(out.status.code(), Some(1 | 124)), "{out:?}");
}
