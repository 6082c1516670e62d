//! The command with the preload library itself, under a program whose waits are known.

use crate::built::library;
use crate::support::{Said, overlock, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The program that waits, compiled once: a test must not start a program that another test still
/// writes.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| compile("waits", &[]));

/// The program whose processes end in other ways than by `exit`.
static ENDS: LazyLock<PathBuf> = LazyLock::new(|| compile("ends", &[]));

fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", flags.concat()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-O2", "-pthread"]).args(flags).arg("-o").arg(&program);
    assert!(compiled.arg(source).status().expect("this needs a C compiler: install gcc").success());
    program
}

/// Makes the command that runs a program under the real library.
fn real(flags: &[&str], program: &Path, args: &[&str]) -> Command {
    let mut command = overlock(flags);
    command.env("OVERLOCK_PRELOAD", library()).arg("--").arg(program).args(args);
    command
}

/// Returns the command's output for the program that waits in `kind`.
fn said(flags: &[&str], kind: &str) -> Said {
    real(flags, &PROGRAM, &[kind]).output().unwrap().into()
}

pub(crate) fn counters(lock: &str, program_args: &[&str]) -> serde_json::Value {
    let said: Said =
        real(&["run", lock, "--json"], &PROGRAM, program_args).output().unwrap().into();
    let record = said.stderr.lines().find(|line| line.starts_with('{')).expect("counters");
    serde_json::from_str(record).expect(record)
}

#[test]
fn counters_say_where_the_program_waited() {
    said(&["run"], "mutex").ends(0, "mutex.locks_contended");
    said(&["run"], "rwlock").ends(0, "rwlock.waits");
    said(&["run"], "semaphore").ends(0, "unreplaced.semaphore_waits       1");
    said(&["run", "none"], "semaphore").ends(0, "unreplaced.semaphore_waits       1");
    said(&["run"], "none").ends(0, "No thread waited for a lock that Overlock replaces");
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

/// Returns the counters that were printed, by their names.
fn printed(said: &Said, name: &str) -> Option<u64> {
    let mut rows = said.stderr.lines().map(str::split_whitespace);
    rows.find_map(|mut row| (row.next() == Some(name)).then(|| row.next()?.parse().ok())?)
}

/// The counters are there however a process ends.
#[test]
fn processes_that_do_not_exit_are_counted() {
    let ways: [(&[&str], u64, u64); 4] =
        [(&["children", "30"], 30, 31), (&[""], 1, 1), (&["exec"], 1, 2), (&["daemon"], 1, 2)];
    for (args, waits, processes) in ways {
        let said: Said = real(&["run"], &ENDS, args).output().unwrap().into();
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        assert_eq!(printed(&said, "mutex.locks_contended"), Some(waits), "{args:?}: {said:?}");
        let plural = if processes == 1 { "process" } else { "processes" };
        assert!(said.stderr.contains(&format!("counters of {processes} {plural}")), "{said:?}");
        assert_eq!(said.stderr.contains("left 1 of its processes behind"), args[0] == "daemon");
    }
}

#[test]
fn a_process_that_changes_its_user_is_counted() {
    let said: Said = real(&["run"], &ENDS, &["user"]).output().unwrap().into();
    // SAFETY: always succeeds.
    if unsafe { libc::geteuid() } == 0 {
        said.ends(0, "Threads waited for mutexes (1 wait)");
    }
}

/// Ctrl-C reaches the whole group of the terminal; TERM and KILL come from somewhere.
#[test]
fn a_server_that_a_signal_ends_is_counted() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::process::CommandExt as _;
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = real(&["run"], &ENDS, &["forever"]);
        let (out, err) = (std::process::Stdio::piped(), std::process::Stdio::piped());
        let mut child = command.process_group(0).stdout(out).stderr(err).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "waited\n");
        let to = if signal == "INT" { format!("-{}", child.id()) } else { child.id().to_string() };
        crate::support::send(signal, to);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}: {stderr}");
        assert!(stderr.contains("Threads waited for mutexes (1 wait)"), "{signal}: {stderr}");
    }
    let killed = ["-s", "KILL", "1", ENDS.to_str().unwrap(), "forever"];
    let said: Said = real(&["run"], Path::new("timeout"), &killed).output().unwrap().into();
    said.ends(137, "Threads waited for mutexes (1 wait)");
}

/// What the others have counted says nothing about a process that counted nothing.
#[test]
fn nothing_is_claimed_of_a_static_child() {
    let child = compile("ends", &["-static"]);
    let args = ["-c".to_owned(), child.display().to_string()];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said: Said = real(&["run"], Path::new("sh"), &args).output().unwrap().into();
    said.ends(0, "ends-static is statically linked");
    assert!(!said.stderr.contains("No thread waited"), "{said:?}");
    // A child that no script names is seen while it lives.
    let folder = tempfile::tempdir().unwrap();
    let long = crate::support::program(
        folder.path(),
        "long",
        format!("#!/bin/sh\na={}\ntimeout 1 \"$a\"-static forever", ENDS.display()).as_bytes(),
        0o755,
    );
    let said: Said = real(&["run"], Path::new(&long), &[]).output().unwrap().into();
    said.ends(124, "ends-static is statically linked");
    // A script that the script starts names it.
    let inner = format!("#!/bin/sh\n{}", child.display());
    let inner = crate::support::program(folder.path(), "inner", inner.as_bytes(), 0o755);
    let outer = format!("#!/bin/sh\nsleep 0.1\n{inner}");
    let outer = crate::support::program(folder.path(), "outer", outer.as_bytes(), 0o755);
    let said: Said = real(&["run"], Path::new(&outer), &[]).output().unwrap().into();
    said.ends(0, "ends-static is statically linked");
    let flags = ["compare", "--locks", "libc,hybrid", "--runs", "1"];
    let script = child.display().to_string();
    let said: Said = real(&flags, Path::new("sh"), &["-c", &script]).output().unwrap().into();
    said.ends(0, "it is unknown whether it waits for locks at all");
    assert!(!said.stdout.contains("no thread waited"), "{said:?}");
}

/// Compiles a program in another language. Returns nothing, and says so, without its compiler.
fn compiled_by(compiler: &mut Command, source: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "-"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    match compiler.arg("-o").arg(&program).arg(&source).output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(program)
        }
        Err(error) => {
            skip(&format!("{}: {error}", source.display()));
            None
        }
    }
}

/// Programs whose threads wait for locks that no library can replace: a user learns which these
/// are, and what to do, and no comparison recommends anything.
#[test]
fn locks_that_cannot_be_replaced_are_named() {
    let mut go = Command::new("go");
    go.args(["build", "-ldflags=-linkmode=external"]).env("GO111MODULE", "off");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let programs = [
        (compiled_by(Command::new(rustc).arg("-O"), "std.rs"), "it contains Rust code"),
        (compiled_by(go.env("CGO_ENABLED", "1"), "goroutines.go"), "it is a Go program"),
    ];
    for (program, kind) in programs.iter().filter_map(|(path, kind)| Some((path.as_ref()?, kind))) {
        let said: Said = real(&["run"], program, &[]).output().unwrap().into();
        said.ends(0, kind);
        said.ends(0, "`overlock trace` shows why its threads wait");
        let flags = ["compare", "--locks", "libc,hybrid", "--runs", "6"];
        let said: Said = real(&flags, program, &[]).output().unwrap().into();
        said.ends(0, kind);
        assert!(said.stdout.contains("No verdict"), "{said:?}");
    }
}

/// The library that lies beside a command may be newer, and built in another way.
#[test]
fn a_release_build_uses_the_library_inside_it() {
    if cfg!(debug_assertions) {
        return; // A build for debugging contains none.
    }
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("overlock");
    let mut copy = Command::new("cp");
    copy.args([crate::support::OVERLOCK.as_ref(), alone.as_os_str()]);
    assert!(copy.status().unwrap().success());
    for beside in ["liboverlock_preload.so", "deps/liboverlock_preload.so"] {
        let beside = folder.path().join(beside);
        std::fs::create_dir_all(beside.parent().unwrap()).unwrap();
        std::fs::write(beside, "newer").unwrap();
    }
    let cache = folder.path().join("cache");
    let mut command = Command::new(alone);
    command
        .args(["run", "--", "true"])
        .env_remove("OVERLOCK_PRELOAD")
        .env("XDG_CACHE_HOME", &cache);
    let said: Said = command.output().unwrap().into();
    said.ends(0, &format!("counters of 1 process, with {}", cache.display()));
    assert!(!said.stderr.contains("debug build"), "{said:?}");
}

/// LD_PRELOAD has no way to quote its separators.
#[test]
fn a_library_behind_a_space_or_a_colon_is_loaded() {
    for name in ["h o m e", "co:lon", "$ORIGIN"] {
        let folder = tempfile::tempdir().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let odd = folder.path().join(name);
        std::fs::create_dir(&odd).unwrap();
        std::fs::copy(library(), odd.join("lib.so")).unwrap();
        let mut command = real(&["run"], &PROGRAM, &["mutex"]);
        command.env("OVERLOCK_PRELOAD", odd.join("lib.so")).env("TMPDIR", temporary.path());
        let said: Said = command.output().unwrap().into();
        said.ends(0, "Threads waited for mutexes");
        assert!(said.stderr.contains(&odd.display().to_string()), "{said:?}");
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{name}");
    }
}
