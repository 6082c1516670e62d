//! Does `overlock torture` torture all locks, catch the broken ones, and repeat what it reports?

use crate::support::{Said, interrupt, overlock, said, said_until};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const LOCKS: [&str; 5] = ["test-and-set", "ticket", "queued", "hybrid", "native-hybrid"];

/// What each of them has some of after a while, as pointers into its record.
const COUNTS: [&str; 6] =
    ["/runs", "/injections", "/steps", "/acquisitions", "/faults/away", "/counters/lock_slowpath"];

/// Whether a count of a record is more than 0.
fn some(record: &Value, count: &str) -> bool {
    record.pointer(count).and_then(Value::as_u64).unwrap() > 0
}

/// Tortures for a second, or longer if not all records are as `wanted`.
fn tortured_until(args: &[&str], wanted: impl Fn(&Value) -> bool) -> Said {
    let run = |time: &str| {
        let said = said(&[&["torture", "--json", "--for", time], args].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    said_until(&["1s", "4s", "16s", "64s"], run, |said| said.records("torture").iter().all(&wanted))
}

#[test]
fn all_locks_are_tortured_and_recorded() {
    let seen = |record: &Value| {
        !LOCKS.iter().any(|&lock| record["lock"] == lock)
            || COUNTS.iter().all(|it| some(record, it))
    };
    let said = tortured_until(&["--steps", "5000"], seen);
    assert_eq!(said.records("run").len(), 1);
    let records = said.records("torture");
    for lock in LOCKS {
        let of: Vec<_> = records.iter().filter(|record| record["lock"] == lock).collect();
        let [record] = of[..] else { panic!("{lock}: {said:?}") };
        assert_eq!((&record["world"], &record["failed"]), (&"sim".into(), &false.into()));
        for count in COUNTS {
            assert!(some(record, count), "{lock}: {count}");
        }
    }
}

#[test]
fn a_lock_that_is_wrong_is_caught_and_its_failure_repeats() {
    let first = said(&["torture", "--lock", "broken-lost-wakeup", "--for", "20s"]);
    assert_eq!(first.code, Some(1), "{first:?}");
    let (_, command) = first.stdout.split_once("repeat it with: overlock ").unwrap();
    let words: Vec<&str> = command.lines().next().unwrap().split(' ').collect();
    let again = said(&words);
    assert_eq!(again.code, Some(1), "{again:?}");
    let complaint = |said: &Said| said.stdout.lines().next().unwrap().to_owned();
    assert!(complaint(&first).contains("lost-wakeup at "), "{first:?}");
    assert_eq!(complaint(&first), complaint(&again));
}

#[test]
fn a_failure_is_a_record_with_its_trace_and_the_command_to_repeat_it() {
    let said = said(&["torture", "--lock", "broken-noop,ticket", "--for", "1s", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let [failure] = &said.records("torture-failure")[..] else { panic!("{said:?}") };
    assert_eq!(failure["oracle"], "exclusion");
    assert!(!failure["trace"].as_array().unwrap().is_empty());
    assert!(failure["replay"].as_str().unwrap().starts_with("overlock torture --lock broken-noop"));
    let failed: Vec<_> =
        said.records("torture").iter().map(|record| record["failed"].clone()).collect();
    assert_eq!(failed, [true, false], "the other lock goes on");
}

#[test]
fn locks_of_several_kinds_are_tortured_in_one_run() {
    let counts = ["/injections", "/takeovers", "/crossed_kicks"];
    let seen = |record: &Value| counts.iter().all(|count| some(record, count));
    let said = tortured_until(&["--lock", "mixed"], seen);
    let [record] = &said.records("torture")[..] else { panic!("{said:?}") };
    assert_eq!(record["lock"], "mixed");
    for count in counts {
        assert!(some(record, count), "{count}: {said:?}");
    }
}

#[test]
fn a_run_that_is_fine_can_be_repeated_too() {
    let args = ["torture", "--lock", "hybrid", "--replay", "random:0x5eed:5000:3"];
    let (first, second) = (said(&args), said(&args));
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stdout.contains("is fine"), "{first:?}");
    assert_eq!(first.stdout, second.stdout, "steps and hash are the same in another process");
}

#[test]
fn the_summary_survives_ctrl_c() {
    let mut child = overlock(&["torture", "--lock", "queued"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    interrupt(child.id());
    assert!(child.wait().unwrap().success());
    let said: Said = child.wait_with_output().unwrap().into();
    assert!(said.stdout.contains("queued") && said.stdout.contains("fine"), "{said:?}");
}

#[test]
fn broken_locks_are_not_offered() {
    let help = said(&["torture", "--help"]).stdout;
    assert!(help.contains("Examples:") && !help.contains("broken"), "{help}");
}
