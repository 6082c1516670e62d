//! Does `overlock bench` measure readers and waits for conditions, and notice locks that are bad at
//! them?

use crate::bench::bench_until;
use crate::support::Said;
use serde_json::Value;

fn have_run(said: &Said) -> bool {
    let ops = |point: &Value| point["ops_per_s"]["median"].as_f64();
    said.records("point").iter().all(|point| ops(point) > Some(0.0))
}

fn locks_of(said: &Said, task: &str) -> Vec<String> {
    let points = said.records("point");
    let of = points.iter().filter(|point| point["task"] == task);
    of.map(|point| point["lock"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn readers_are_measured_under_every_read_write_lock() {
    let args = ["2", "--read-share", "0,50,100", "--threads", "4", "--locks", "all"];
    let said = bench_until(&[&args[..], &["--json"]].concat(), have_run);
    assert_eq!(said.code, Some(0), "{said:?}");
    let all = ["rwlock", "std-rwlock", "parking-lot-rwlock", "pthread-rwlock"];
    for task in ["read-0", "read-50", "read-100"] {
        assert_eq!(locks_of(&said, task), all, "{task}");
    }
    let points = said.records("point");
    let stalls = |task: &str| {
        let of = points.iter().filter(|point| point["task"] == task);
        of.filter(|point| point["write_stall_ns"].is_number()).count()
    };
    assert!(stalls("read-0") > 0, "{points:?}");
    assert_eq!(stalls("read-100"), 0, "{points:?}");
    assert_eq!(said.records("pair").len(), 4);
    assert!(have_run(&said), "{said:?}");
}

#[test]
fn a_writer_beside_a_reader_is_caught() {
    let args = ["2", "--read-share", "50", "--threads", "4"];
    let locks = ["--locks", "broken-reads,std-rwlock"];
    let is_caught = |said: &Said| said.stderr.contains("failed: lock broken-reads at micro");
    let said = bench_until(&[&args[..], &locks[..]].concat(), is_caught);
    said.ends(1, "two threads were in the critical section at once");
}

#[test]
fn waits_for_conditions_are_measured_with_every_lock_that_has_them() {
    let all = ["hybrid", "queued", "ticket", "test-and-set", "std", "parking-lot", "pthread"];
    for task in ["ping-pong", "producer-consumer", "broadcast"] {
        let args = ["1", "--workload", task, "--threads", "1,5", "--locks", "all"];
        let said = bench_until(&[&args[..], &["--json", "--explain"]].concat(), have_run);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(locks_of(&said, task), [all, all].concat(), "{task}");
        assert!(have_run(&said), "{task}: {said:?}");
    }
}

#[test]
fn a_lost_notification_is_a_stall() {
    let args = ["1", "--workload", "ping-pong", "--threads", "2", "--json"];
    let locks = ["--locks", "broken-notify,std"];
    let stalls = |said: &Said, lock: &str| {
        let points = said.records("point");
        let of = points.iter().find(|point| point["lock"] == lock);
        of.and_then(|point| point["long_stalls"].as_u64())
    };
    let is_seen = |said: &Said| stalls(said, "broken-notify") > Some(0);
    let said = bench_until(&[&args[..], &locks[..]].concat(), is_seen);
    assert!(is_seen(&said), "{said:?}");
}

#[test]
fn the_tables_name_what_is_measured() {
    let args = ["1", "--read-share", "90", "--threads", "2"];
    let said = bench_until(&args, |said| said.stdout.contains("write stall"));
    for part in [
        "2 threads, cs 100ns, ncs 0, exp, 90 % reads",
        "write stall",
        "rwlock",
        "parking-lot-rwlock",
    ] {
        assert!(said.stdout.contains(part), "'{part}' is not in {}", said.stdout);
    }
    let args = ["1", "--workload", "broadcast", "--threads", "3"];
    let said = bench_until(&args, |said| said.code == Some(0));
    assert!(said.stdout.contains("3 threads, cs 100ns, ncs 0, exp, broadcast"), "{said:?}");
}
