//! Does `overlock run` leave the program unchanged, except for its locks?

use crate::support::{OVERLOCK, Said, c_library, counts, overlock, said, send, skip, stand_in};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_environment_chooses_the_lock() {
    let script = r#"echo "$OVERLOCK_LOCK $LD_PRELOAD" "$@""#;
    for (args, lock) in [
        (vec!["run"], "hybrid"),
        (vec!["run", "ticket"], "ticket"),
        (vec!["run", "--lock", "queued"], "queued"),
    ] {
        let said = said(&[&args[..], &["--", "sh", "-c", script, "sh", "a b"]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.starts_with(&format!("{lock} /")), "{said:?}");
        assert!(said.stdout.ends_with(" a b\n"), "{said:?}");
    }
    let said = said(&["run", "libc", "--", "sh", "-c", script]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (" \n", ""));
}

#[test]
fn exit_codes_and_signals_pass_through() {
    assert_eq!(said(&["run", "--", "sh", "-c", "exit 42"]).code, Some(42));
    assert_eq!(said(&["run", "--", "sh", "-c", "kill -TERM $$"]).code, Some(128 + 15));
    assert_eq!(said(&["run", "--", "sh", "-c", "kill -SEGV $$"]).code, Some(128 + 11));
}

#[test]
fn a_signal_to_the_command_reaches_the_program_as_it_is() {
    for signal in ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2"] {
        let trap = r#"trap "echo $0; exit 7" $0; echo ready; while :; do sleep 0.02; done"#;
        let mut command = overlock(&["run", "libc", "--", "sh", "-c", trap, signal]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        send(signal, child.id());
        assert_eq!(lines.next().unwrap().unwrap(), signal);
        assert_eq!(child.wait().unwrap().code(), Some(7), "{signal}");
    }
}

#[test]
fn what_is_ignored_stays_ignored() {
    let script = r#"trap "" HUP; exec "$0" run libc -- sh -c 'kill -HUP $$; echo survived'"#;
    let mut command = Command::new("sh");
    let said: Said = command.args(["-c", script, OVERLOCK]).output().unwrap().into();
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "survived\n"), "{said:?}");
}

/// The program's own lines would stand between those of the counters.
#[test]
fn counters_in_a_file_do_not_mix_with_the_program() {
    let script = "echo loud >&2";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counters.jsonl");
    let path = file.to_str().unwrap();
    for json in [&["--json"][..], &[]] {
        let said = said(&[&["run", "--out", path], json, &["--", "sh", "-c", script]].concat());
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), "loud\n"), "{said:?}");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(kept.lines().count() == 1 && kept.contains("\"kind\":\"process\""), "{kept}");
    }
    // The program has run, so its counters and its end must not be lost.
    let full = said(&["run", "--out", "/dev/full", "--", "sh", "-c", script]);
    full.ends(2, "overlock: the program ended with code");
    assert!(full.stderr.contains("\"kind\":\"process\""), "{full:?}");
}

#[test]
fn counters_are_printed_after_the_program() {
    let counted = counts(&[("mutex.locks_contended", 7), ("pv_wait_node", 9)]);
    let run = |args: &[&str]| -> Said {
        let mut command = overlock(&[&["run"], args, &["--", "sh", "-c", "echo done"]].concat());
        command.env("STAND_IN_COUNTS", &counted).output().unwrap().into()
    };
    let table = run(&[]);
    assert_eq!(table.stdout, "done\n");
    table.ends(0, "  pv_wait_node                9");
    table.ends(0, "Threads waited for mutexes (7 waits)");
    let at = |text| table.stderr.find(text).expect(text);
    assert!(at("Threads waited") < at("counter "), "{table:?}");
    run(&["--json"]).ends(0, r#""pv_wait_node":9"#);
}

/// Whoever reads figures believes that they are of the lock that was asked for.
#[test]
fn a_library_that_was_not_loaded_is_noticed() {
    let mut run = overlock(&["run", "--", "true"]);
    let run: Said = run.env("STAND_IN_ABSENT", "1").output().unwrap().into();
    run.ends(0, "the dynamic loader did not load");
    let mut compare = overlock(&["compare", "--runs", "1", "--", "true"]);
    let compare: Said = compare.env("STAND_IN_ABSENT", "1").output().unwrap().into();
    compare.ends(2, "the dynamic loader did not load");
    assert_eq!(compare.stdout, "");
}

#[test]
fn a_missing_or_wrong_library_is_reported() {
    let args = ["run", "--", "true"];
    let with = |library: &Path| -> Said {
        overlock(&args).env("OVERLOCK_PRELOAD", library).output().unwrap().into()
    };
    with("/no/such/library.so".as_ref())
        .ends(2, "OVERLOCK_PRELOAD names /no/such/library.so, which can't be read");
    with("/etc/passwd".as_ref()).ends(2, "/etc/passwd is not a 64-bit shared library");
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("liboverlock_preload.so");
    std::fs::copy(c_library(), &locked).unwrap();
    std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    match std::fs::File::open(&locked) {
        Ok(_) => skip("this user may read everything"),
        Err(_) => {
            with(&locked).ends(2, "liboverlock_preload.so, which can't be read: Permission denied")
        }
    }
    with(&c_library()).ends(2, "is a library, but not Overlock's");
    let old = stand_in("old.so", &c_library(), "0.0.1", "0");
    with(&old).ends(2, "has version 0.0.1, but this command has");
    let other = stand_in("other.so", &c_library(), env!("CARGO_PKG_VERSION"), "0");
    with(&other).ends(2, "was built from other sources than this command");

    if !cfg!(debug_assertions) {
        return; // A release build contains the library.
    }
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("overlock");
    // By another process: a child that a test beside this one starts during a copy here would
    // inherit the open file, and a program that is open for writing does not run.
    let copied = std::process::Command::new("cp")
        .args([env!("CARGO_BIN_EXE_overlock").as_ref(), alone.as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    let output =
        std::process::Command::new(alone).args(args).env_remove("OVERLOCK_PRELOAD").output();
    Said::from(output.unwrap()).ends(2, "cargo build -p overlock-preload");
}

#[test]
fn doctor_has_an_answer_for_everything() {
    let said = said(&["doctor", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let findings = said.records("doctor")[0]["findings"].as_array().unwrap().clone();
    for name in ["CPUs", "steal", "time stamp counter", "futex", "/dev/kvm", "preload library"] {
        let found = findings.iter().find(|finding| finding["name"] == name);
        assert!(found.is_some_and(|found| found["found"] != ""), "{name}");
    }
}

#[test]
fn doctor_fits_the_terminal() {
    for columns in [30, 60, 80] {
        let mut command = overlock(&["doctor"]);
        let said: Said = command.env("COLUMNS", columns.to_string()).output().unwrap().into();
        assert_eq!(said.code, Some(0), "{said:?}");
        for line in said.stdout.lines() {
            // A path that is longer than the terminal can't be broken.
            let is_one_word = line.split_whitespace().count() == 1;
            assert!(line.chars().count() <= columns || is_one_word, "{columns}: {line}");
        }
    }
}

#[test]
fn a_full_disk_is_named() {
    said(&["compare", "--locks", "libc,hybrid", "--out", "/dev/full", "--", "true"])
        .ends(2, "can't write the result file: No space left on device");
    let full = std::fs::File::create("/dev/full").unwrap();
    let said: Said = overlock(&["doctor"]).stdout(full).output().unwrap().into();
    said.ends(2, "can't write the results: No space left on device");
}

/// The results are shown all the same, and the exit code tells that the file is incomplete.
#[test]
fn a_disk_that_fills_up_meanwhile_costs_the_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.jsonl");
    let mut command = overlock(&["compare", "--runs", "40", "--locks", "libc,hybrid", "--out"]);
    command.arg(&file).args(["--", "true"]);
    // SAFETY: both calls are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            // A write past the limit fails, as on a full disk, instead of killing the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 4096, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            Ok(())
        });
    }
    let said: Said = command.output().unwrap().into();
    assert!(said.stdout.contains("wall time"), "{said:?}");
    assert!(said.stderr.contains("continuing without"), "{said:?}");
    said.ends(2, "the result file is incomplete: File too large");
}

/// A reader of `--out` that leaves is not the reader of standard output, which may leave.
#[test]
fn a_broken_result_pipe_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|made| made.success()));
    let to_read = pipe.clone();
    let read_one = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(std::fs::File::open(to_read).unwrap()).read_line(&mut line).unwrap();
        line
    });
    let mut command = overlock(&["compare", "--runs", "40", "--locks", "libc,hybrid", "--out"]);
    let said: Said = command.arg(pipe).args(["--", "true"]).output().unwrap().into();
    said.ends(2, "the result file is incomplete: Broken pipe");
    assert!(read_one.join().unwrap().contains("\"run\""));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = overlock(&["doctor"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
