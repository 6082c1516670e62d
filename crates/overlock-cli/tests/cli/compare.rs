//! Does `overlock compare` rank, judge, survive failing programs and explain bad input?
//!
//! The test programs act on `OVERLOCK_LOCK`, so every outcome is known in advance.

use crate::support::{Said, counts, interrupt, overlock, program, runs, said, wait_until};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

fn compare(flags: &[&str], script: &str) -> Said {
    said(&[&["compare"], flags, &["--", "sh", "-c", script]].concat())
}

/// A program whose figure depends only on its lock, with a little noise from its process id.
const FIGURE: &str = r#"case "$OVERLOCK_LOCK" in
    hybrid) rate=200;; ticket) rate=100;; *) rate=150;; esac
    echo "rate: $rate.$(($$ % 10))""#;

#[test]
fn the_best_lock_is_named_with_its_ratio() {
    let flags = ["--locks", "libc,hybrid,ticket", "--runs", "6", "--metric", "rate: ([0-9.]+)"];
    let said = compare(&[&flags[..], &["--higher-is-better"]].concat(), FIGURE);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("Use hybrid: it is 1.3"), "{}", said.stdout);
    assert!(said.stdout.contains("; a higher metric is better; "), "{}", said.stdout);
    let order = ["  hybrid ", "  libc ", "  ticket "].map(|name| said.stdout.find(name).unwrap());
    assert!(order.is_sorted(), "{}", said.stdout);
}

/// Returns the output for a program that counts this, and whose figure favours `ticket`.
fn with_counters(counted: &[(&str, u64)]) -> Said {
    let script = r#"[ "$OVERLOCK_LOCK" = ticket ] && echo 1 || echo 2"#;
    let flags = ["compare", "--locks", "libc,ticket", "--runs", "6", "--metric", "[0-9]"];
    let mut command = overlock(&[&flags[..], &["--", "sh", "-c", script]].concat());
    command.env("STAND_IN_COUNTS", counts(counted)).output().unwrap().into()
}

#[test]
fn a_program_that_waits_for_no_lock_of_ours_gets_no_verdict() {
    with_counters(&[]).ends(0, "under ticket: No thread waited for a lock that Overlock replaces");
    let libcs = [("mutex.handed_to_libc", 3), ("unreplaced.semaphore_waits", 4)];
    let sentence = "but threads waited for semaphores (4 waits), mutexes that are \
                    process-shared, robust or priority-aware (3 calls), which stay libc's";
    with_counters(&libcs).ends(0, sentence);
    for counters in [&[][..], &libcs] {
        let said = with_counters(counters);
        assert!(said.stdout.contains("No verdict: no thread waited"), "{said:?}");
        assert!(!said.stdout.contains("overlock run"), "{said:?}");
    }
    // The same figures, from a program that waits.
    let said = with_counters(&[("cond.waits", 1)]);
    assert!(said.stdout.contains("Use ticket: it is 2.00x"), "{said:?}");
    assert!(!said.stderr.contains("under ticket"), "{said:?}");
    let mostly = [("cond.waits", 1), ("unreplaced.semaphore_waits", 11)];
    with_counters(&mostly)
        .ends(0, "waited more often for what Overlock does not replace: semaphores (11 waits)");
}

/// One lock beside the library that replaces nothing is no comparison of locks.
#[test]
fn a_lock_beside_none_ends_with_a_sentence() {
    for locks in ["libc,none", "none,hybrid"] {
        let said = compare(&["--locks", locks, "--runs", "1"], "true");
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("No verdict: there is only one lock"), "{locks}: {said:?}");
    }
}

#[test]
fn a_crash_under_one_lock_is_reported_and_the_others_go_on() {
    let script = r#"[ "$OVERLOCK_LOCK" = ticket ] && kill -SEGV $$; true"#;
    let said = compare(&["--locks", "libc,ticket,hybrid", "--runs", "2"], script);
    said.ends(1, "under ticket, crashed: signal 11 (SIGSEGV)");
    assert!(!said.stdout.contains("too few locks"), "{said:?}");
    let alone = compare(&["--locks", "libc,ticket", "--runs", "2"], script);
    assert!(alone.stdout.contains("too few locks"), "{alone:?}");
    assert!(said.stdout.contains("  hybrid ") && !said.stdout.contains("  ticket "), "{said:?}");
}

#[test]
fn a_hang_under_one_lock_is_ended_with_all_its_children() {
    let script = r#"[ "$OVERLOCK_LOCK" = ticket ] && { sleep 1000 & wait; }; true"#;
    let flags = ["--locks", "libc,ticket,hybrid", "--runs", "2", "--timeout", "0.5"];
    let said = compare(&flags, script);
    said.ends(1, "under ticket, hung: killed after 0.5 s");
    assert!(said.stdout.contains("  hybrid "), "{said:?}");
}

#[test]
fn other_output_under_one_lock_is_reported() {
    let script =
        r#"echo same; echo "${OVERLOCK_LOCK:-plain}" | sed s/hybrid/plain/; date +time:%N"#;
    let flags = ["--locks", "libc,ticket,hybrid", "--runs", "2", "--check-output"];
    let said = compare(&[&flags[..], &["--ignore", "^time:"]].concat(), script);
    said.ends(1, "under ticket, printed something else: line 2 is 'ticket' and was 'plain'");
    assert!(!said.stderr.contains("under hybrid"), "{said:?}");
    compare(&flags, script).ends(2, "the output varies with the program's own locks");
}

#[test]
fn the_records_hold_every_raw_sample() {
    let said = compare(&["--locks", "libc,hybrid", "--runs", "2", "--json"], "true");
    assert_eq!(said.records("run").len(), 1);
    let points = said.records("point");
    assert_eq!(points.len(), 3, "libc, hybrid, and none");
    for point in points {
        assert_eq!(point["world"], "process");
        let samples = point["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 2);
        assert!(samples[0]["seconds"].as_f64().unwrap() > 0.0);
        assert!(samples[0]["max_rss_kib"].as_i64().unwrap() > 0);
    }
}

#[test]
fn a_program_needs_no_dashes() {
    let script = r#"test "$OVERLOCK_LOCK" = "$0" && test "$1" = --json"#;
    for words in [&["run", "ticket"][..], &["run", "ticket", "--"], &["run", "--lock", "ticket"]] {
        // A flag after the program is the program's.
        let of = said(&[words, &["sh", "-c", script, "ticket", "--json"]].concat());
        assert_eq!(of.code, Some(0), "{words:?}: {of:?}");
    }
    let short = ["compare", "--runs", "1", "--locks", "libc,hybrid", "sh", "-c", "true"];
    assert_eq!(said(&short).code, Some(0));
}

#[test]
fn an_accepted_exit_code_is_no_failure() {
    let said = compare(&["--runs", "1", "--locks", "libc,hybrid", "--any-exit-code"], "exit 3");
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn programs_that_cannot_be_preloaded_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let shell = std::fs::read("/bin/sh").unwrap();
    let mut elf = vec![0_u8; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut small = elf.clone();
    small[4] = 1;
    // One program header: the one with the path of the loader.
    let mut musl = elf.clone();
    (musl[32], musl[54], musl[56]) = (64, 56, 1);
    musl.resize(64 + 56, 0);
    let path = b"/lib/ld-musl-x86_64.so.1\0";
    (musl[64], musl[64 + 8], musl[64 + 32]) = (3, 64 + 56, path.len() as u8);
    musl.extend(path);
    for (name, bytes, mode, sentence) in [
        ("static", &elf, 0o755, "is statically linked"),
        ("static", &elf, 0o755, "; `overlock trace` shows why its threads wait"),
        ("thirty-two", &small, 0o755, "is not a 64-bit program"),
        ("musl", &musl, 0o755, "than glibc (its loader is /lib/ld-musl-x86_64.so.1)"),
        ("go", &[&elf[..], b"\xff Go buildinf:"].concat(), 0o755, "is a Go program"),
        ("text", &b"hello".to_vec(), 0o755, "is neither an ELF program nor a script"),
        ("script", &b"#!/no/such/shell\n".to_vec(), 0o755, "is run by /no/such/shell"),
        ("plain", &shell, 0o644, "is not executable"),
    ] {
        let path = program(folder.path(), name, bytes, mode);
        said(&["compare", "--", &path]).ends(2, sentence);
        said(&["run", "hybrid", "--", &path]).ends(2, sentence);
    }
    let script = format!("#!{}/static\n", folder.path().display());
    let path = program(folder.path(), "script-of-static", script.as_bytes(), 0o755);
    said(&["run", "--", &path]).ends(2, "statically linked");
    said(&["run", "--", &path]).ends(2, "; `overlock trace` shows why its threads wait");
    let path = program(folder.path(), "good-script", b"#!/usr/bin/env sh\nexit 5\n", 0o755);
    assert_eq!(said(&["run", "--", &path]).code, Some(5));
}

#[test]
fn binary_output_is_compared_byte_by_byte() {
    let script = r#"[ "$OVERLOCK_LOCK" = ticket ] && printf 'a\376' || printf 'a\377'"#;
    let said = compare(&["--locks", "libc,ticket", "--runs", "1", "--check-output"], script);
    said.ends(1, r"line 1 is 'a\xfe' and was 'a\xff' in the first run");
}

/// A name, an argument and a folder can contain any bytes.
#[test]
fn arguments_need_not_be_text() {
    let odd = OsStr::from_bytes(b"\xff'");
    for command in [&["run", "libc"][..], &["compare", "--runs", "1", "--locks", "libc,hybrid"]] {
        let mut command = overlock(command);
        let script = r#"[ "$1" = "$(printf "\377'")" ] && echo same"#;
        let said: Said = command
            .args(["--", "sh", "-c", script, "sh"])
            .arg(odd)
            .env("LC_ALL", "C")
            .output()
            .unwrap()
            .into();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("same") || said.stdout.contains(r"$'\xff\''"), "{said:?}");
    }
}

#[test]
fn an_end_before_the_first_round_is_reported() {
    let said = compare(&["--runs", "2"], "kill -INT $PPID; sleep 9");
    said.ends(130, "before the end of the first round");
}

#[test]
fn whole_rounds_are_kept_when_the_comparison_is_interrupted() {
    let flags = ["compare", "--locks", "libc,hybrid", "--runs", "2", "--json"];
    let script = [
        "--",
        "sh",
        "-c",
        "n=$(cat \"$0\" 2>/dev/null || echo 0); echo $((n + 1)) > \"$0\"
        [ $n -lt 5 ] || kill -INT $PPID; sleep 0.3",
    ];
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("runs");
    let said = said(&[&flags[..], &script, &[counter.to_str().unwrap()]].concat());
    assert_eq!(said.code, Some(130), "{said:?}");
    let points = said.records("point");
    assert_eq!(points.len(), 3, "{said:?}");
    assert!(points.iter().all(|point| point["samples"].as_array().unwrap().len() == 1));
}

/// Two of them end the command at once, and leave neither the program nor a file.
#[test]
fn nothing_is_left_after_ctrl_c() {
    for times in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = r#"trap "" INT TERM; [ -z "$OVERLOCK_LOCK" ] || echo $$ > "$0"
            [ -z "$OVERLOCK_LOCK" ] || sleep 1000"#;
        let flags = ["compare", "--locks", "libc,hybrid", "--", "sh", "-c", script];
        let temporary = tempfile::tempdir().unwrap();
        let mut command = overlock(&flags);
        command.arg(&pid_file).env("TMPDIR", temporary.path());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let pid = || std::fs::read_to_string(&pid_file).ok().filter(|pid| pid.ends_with('\n'));
        wait_until(|| pid().is_some());
        (0..times).for_each(|_| interrupt(child.id()));
        assert_eq!(child.wait().unwrap().code(), Some(130));
        // Killed, and reaped by the process that inherits it.
        wait_until(|| !runs(pid().unwrap().trim()));
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{times}");
    }
}

/// In rows and sentences: indented lines are for copying and stay whole.
#[test]
fn tables_and_messages_fit_the_terminal() {
    let flags = ["compare", "--locks", "libc,ticket", "--runs", "2", "--", "true"];
    for columns in [40, 60, 200] {
        let mut command = overlock(&flags);
        let said: Said = command.env("COLUMNS", columns.to_string()).output().unwrap().into();
        for line in said.stdout.lines().chain(said.stderr.lines()) {
            assert!(line.chars().count() <= columns, "{columns}: {line:?}");
        }
        let tables = said.stdout.lines().filter(|line| line.starts_with("  lock ")).count();
        assert_eq!(tables == 1, columns == 200, "{said:?}");
    }
}

/// The loader preloads into a set-uid program of the user who starts it.
#[test]
fn only_a_program_of_another_user_is_privileged() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let shell = std::fs::read("/bin/sh").unwrap();
    let path = program(folder.path(), "own", &shell, 0o755);
    for mode in [0o4755, 0o2755] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        said(&["run", "--", &path, "-c", "exit 4"]).ends(4, "");
        if chown(&path, Some(65534), Some(65534)).is_ok() {
            // The change of the owner has taken the bits away.
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            said(&["run", "--", &path, "-c", "exit 4"]).ends(2, "is set-");
            chown(&path, Some(0), Some(0)).unwrap();
        }
    }
}

/// A pipe can be read only once.
#[test]
fn each_run_reads_the_same_input() {
    let run = |stdin: Stdio| {
        let flags = ["compare", "--locks", "libc,hybrid", "--runs", "2", "--check-output"];
        let mut command =
            overlock(&[&flags[..], &["--metric", "[0-9]+", "--", "wc", "-c"]].concat());
        Said::from(command.stdin(stdin).output().unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, "twelve bytes").unwrap();
    let (pipe, mut end) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut end, b"twelve bytes").unwrap();
    drop(end);
    for stdin in [Stdio::from(std::fs::File::open(&file).unwrap()), Stdio::from(pipe)] {
        let said = run(stdin);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("  libc      12.0 "), "{said:?}");
    }
}

/// What is typed can't be the same for each run.
#[test]
fn a_terminal_as_input_is_told() {
    use std::os::fd::FromRawFd as _;
    let (mut ours, mut programs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the descriptors are writable; the rest is optional.
    let error = unsafe { libc::openpty(&mut ours, &mut programs, none, none.cast(), none.cast()) };
    assert_eq!(error, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just opened, and owned by nothing else.
    let [_ours, terminal] = [ours, programs].map(|fd| unsafe { std::fs::File::from_raw_fd(fd) });
    let flags = ["compare", "--locks", "libc,hybrid", "--runs", "1", "--", "wc", "-c"];
    let said: Said = overlock(&flags).stdin(terminal).output().unwrap().into();
    said.ends(0, "standard input is a terminal, so each run reads an empty file instead");
    let run = overlock(&flags).stdin(Stdio::null()).output().unwrap();
    assert!(!Said::from(run).stderr.contains("terminal"));
}

/// The program's memory is not that of this command, which has several MiB more.
#[test]
fn memory_is_the_programs_own() {
    let said = compare(&["--locks", "libc,hybrid", "--runs", "1", "--json"], "exit 0");
    let points = said.records("point");
    let rss = |lock: &str| {
        let point = points.iter().find(|point| point["lock"] == lock).expect(lock);
        point["samples"][0]["max_rss_kib"].as_u64().unwrap()
    };
    assert!((300..4000).contains(&rss("libc")), "{said:?}");
}

#[test]
fn a_daemon_is_refused_and_does_not_overlap_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("setsid sh -c 'echo $$ > {}; sleep 1000' & sleep 0.3", pid.display());
    let said = compare(&["--locks", "libc,hybrid", "--runs", "1"], &script);
    said.ends(2, "went into the background");
    assert!(!runs(std::fs::read_to_string(&pid).unwrap().trim()));
}
