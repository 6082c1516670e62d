//! Do children end when they should, with all that they have started, and never before?

use overlock_programs::{Bond, Child, Finished, Process, finish};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

static NEVER: AtomicBool = AtomicBool::new(false);

/// A shell that runs a script, with standard output piped.
fn shell(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    shell
}

/// Starts a script that says one line when it is ready; returns that line too.
fn ready(script: &str) -> (Child, String) {
    let mut child = Child::spawn(&mut shell(script)).unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

/// Whether a process runs, as opposed to one that waits to be reaped by whoever inherited it.
fn runs(pid: &str) -> bool {
    Process::of(pid.parse().unwrap()).is_some_and(|process| !process.is_zombie)
}

/// Waits for what must come: a test that fails here hangs for a minute first.
fn comes(what: impl Fn() -> bool) -> bool {
    (0..12_000).any(|_| {
        let come = what();
        if !come {
            std::thread::sleep(Duration::from_millis(5));
        }
        come
    })
}

#[test]
fn one_that_ignores_the_request_to_end_is_killed_with_what_it_has_started() {
    let (mut child, grandchild) =
        ready("trap '' TERM; sleep 1000 & echo $!; wait; exec sleep 1000");
    assert!(runs(&grandchild));
    let exit = child.end(Duration::from_millis(20)).unwrap();
    assert_eq!(exit.status.signal(), Some(libc::SIGKILL));
    assert!(comes(|| !runs(&grandchild)));
}

#[test]
fn one_that_obeys_ends_as_it_likes() {
    let (mut child, _) = ready("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done");
    let exit = child.end(Duration::from_secs(600)).unwrap();
    assert_eq!(exit.status.code(), Some(7));
}

#[test]
fn what_a_child_leaves_behind_ends_with_it() {
    let mut command = shell("sleep 1000 & echo $!");
    let Finished::Exited { exit, stdout } = finish(&mut command, None, &NEVER).unwrap() else {
        panic!("it ends by itself");
    };
    assert!(exit.status.success());
    let left = String::from_utf8(stdout).unwrap();
    assert!(comes(|| !runs(left.trim())), "{left}");
}

#[test]
fn a_dropped_child_is_killed_with_what_it_has_started() {
    let (child, grandchild) = ready("sleep 1000 & echo $!; wait");
    let own = child.id().to_string();
    assert!(runs(&own) && runs(&grandchild));
    drop(child);
    assert!(!runs(&own) && comes(|| !runs(&grandchild)));
}

#[test]
fn all_that_a_child_says_is_read_while_it_runs() {
    // Four times what a pipe holds.
    let finished = finish(&mut shell("head -c 262144 /dev/zero; exit 3"), None, &NEVER).unwrap();
    let Finished::Exited { exit, stdout } = finished else { panic!("{finished:?}") };
    assert_eq!((exit.status.code(), stdout.len()), (Some(3), 262_144));
}

#[test]
fn a_limit_and_a_cancellation_end_it() {
    let endless = || shell("exec sleep 1000");
    let limit = Some(Duration::from_millis(20));
    assert!(matches!(finish(&mut endless(), limit, &NEVER).unwrap(), Finished::TooLong));
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            cancelled.store(true, Relaxed);
        });
        assert!(matches!(finish(&mut endless(), None, &cancelled).unwrap(), Finished::Cancelled));
    });
}

#[test]
fn what_does_not_start_is_an_error() {
    assert!(finish(&mut Command::new("/no/such/program"), None, &NEVER).is_err());
}

#[test]
#[expect(clippy::zombie_processes, reason = "its supervisor waits for it")]
fn one_that_is_free_is_waited_for_and_outlives_its_supervisor() {
    let mut started = shell("exec sleep 1000").spawn().unwrap();
    let pid = started.id().cast_signed();
    let mut child = Child::adopt(pid, Instant::now(), Bond::Free).unwrap();
    assert!(child.wait(Duration::ZERO).unwrap().is_none());
    drop(child);
    assert!(runs(&pid.to_string()));
    let mut child = Child::adopt(pid, Instant::now(), Bond::Free).unwrap();
    started.kill().unwrap();
    let exit = child.wait(Duration::from_secs(600)).unwrap().unwrap();
    assert_eq!(exit.status.signal(), Some(libc::SIGKILL));
}

/// The kernel ends children with the thread that started them: here a thread, for the sake of the
/// test; in the command, the process.
#[test]
fn a_child_does_not_outlive_who_started_it() {
    let (child, pid) = std::thread::spawn(|| ready("echo $$; exec sleep 1000")).join().unwrap();
    assert!(comes(|| !runs(&pid)));
    drop(child);
}
