//! Does a wait come back to itself through a function that another library has replaced?
//!
//! Each function that the library imports is replaced, one at a time, by one that takes a mutex.

use std::process::Command;

use crate::support::{LOCKS, compile, library, program, text, under};

/// The functions of libc that the library calls, by whatever path, and `syscall`, `sched_yield` and
/// `pthread_rwlock_trywrlock`, which it no longer calls.
fn imports() -> Vec<String> {
    let output = Command::new("nm")
        .args(["--dynamic", "--undefined-only", "--without-symbol-versions"])
        .arg(library())
        .output()
        .expect("nm comes with the C compiler");
    let names = text(&output);
    let strong = names.lines().filter_map(|line| line.trim().strip_prefix("U "));
    let more = ["syscall", "sched_yield", "pthread_rwlock_trywrlock", "pthread_setcanceltype"];
    let mut all: Vec<String> = strong.chain(more).map(str::to_owned).collect();
    // A variable.
    all.retain(|name| name != "program_invocation_name");
    all.sort();
    all.dedup();
    all
}

/// Builds the library that replaces a function.
fn interposer(name: &str) -> std::path::PathBuf {
    // The look-up must not go through the function itself.
    let look_up = match name {
        "dlsym" => r#"dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5")"#,
        _ => "dlsym(RTLD_NEXT, TEXT(SYMBOL))",
    };
    let flags = [&format!("-DSYMBOL={name}"), &format!("-DLOOK_UP={look_up}")];
    let flags = ["-shared", "-fPIC", flags[0], flags[1]];
    compile("interposed.c", &format!("interposed-{name}.so"), &flags)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn no_wait_comes_back_through_a_function_of_libc() {
    let imports = imports();
    assert!(imports.len() > 10, "{imports:?}");
    let waits = program("waits_everywhere.c");
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get() * 2);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let each = (0..workers).map(|worker| {
            let mine = imports.iter().skip(worker).step_by(workers);
            scope.spawn(move || mine.flat_map(|name| failures(name, waits)).collect::<Vec<_>>())
        });
        let each: Vec<_> = each.collect();
        each.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Runs the program under each lock with one function replaced.
fn failures(name: &str, waits: &std::path::Path) -> Vec<String> {
    let both = format!("{}:{}", interposer(name).display(), library().display());
    let run = |lock: &&str| {
        let output = under(lock, waits)
            .arg("threads_wait_in_every_way")
            .env("LD_PRELOAD", &both)
            .output()
            .expect("it was just compiled");
        let said = format!("{name}, {lock}: {} {}", output.status, text(&output));
        (!output.status.success()).then_some(said)
    };
    LOCKS.iter().filter_map(run).collect()
}
